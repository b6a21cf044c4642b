"""References to environment variables in the command line of a container."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; ``$$`` is a dollar, and an unknown variable is kept.

    Source: ``Expand``, k8s.io/kubernetes third_party/forked/golang/expansion/expand.go.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)
