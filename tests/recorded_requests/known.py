"""Where the sandbox differs from a real API server, and why; nothing else may.

The replay fails for a case that is named here and no longer differs.
"""

KNOWN: dict[str, tuple[str, ...]] = {}
