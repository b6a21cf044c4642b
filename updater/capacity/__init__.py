"""Room for the replacements of evicted pods: checks, and requests for more."""
