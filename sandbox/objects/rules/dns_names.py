"""What the parts of DNS names look like, in the words of the refusals.

Source: k8s.io/apimachinery pkg/api/validate/content/dns.go (``IsDNS1123Label``,
``IsDNS1123Subdomain``).
"""

import re
from collections.abc import Iterator
from typing import Final

_PART: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL: Final = re.compile(_PART)
_SUBDOMAIN: Final = re.compile(rf"{_PART}(\.{_PART})*")
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_PART}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_PART}(\\.{_PART})*')"
)


def label_problems(name: str) -> Iterator[str]:
    """Why a name is no DNS label, such as the name of a host is."""
    if len(name) > _LONGEST_LABEL:
        yield f"must be no more than {_LONGEST_LABEL} characters"
    if _LABEL.fullmatch(name) is None:
        yield "must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_RULE


def segment_problems(name: str) -> Iterator[str]:
    """Why a name can't stand in a path, which is all that some kinds ask for.

    Source: ``IsValidPathSegmentName``, k8s.io/apimachinery pkg/api/validation/path/name.go.
    """
    if name in (".", ".."):
        yield f"may not be '{name}'"
        return
    for letter in "/%":
        if letter in name:
            yield f"may not contain '{letter}'"


def subdomain_problems(name: str, *, counted: str = "characters") -> Iterator[str]:
    """Why a name is no DNS subdomain: labels with dots between them.

    ``counted`` is what the refusal of a long one counts: ``bytes`` in the prefix of a label.
    """
    if len(name) > _LONGEST_SUBDOMAIN:
        yield f"must be no more than {_LONGEST_SUBDOMAIN} {counted}"
    if _SUBDOMAIN.fullmatch(name) is None:
        yield _SUBDOMAIN_RULE
