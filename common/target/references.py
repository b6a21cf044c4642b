"""Validation of references to other objects.

Users write these texts, in a VPA's ``targetRef`` and in the owner references of any object, and
they become part of URLs that we request with our credentials. So only texts that an API server
accepts as the identity of an object may become a request.
"""

import re

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_SHOWN = 100  # characters of a user's text


def api_version_problem(api_version: str) -> str:
    """Return the problem of a text that is no ``version`` or ``group/version``; else empty.

    A group is a DNS-1123 subdomain of up to 253 characters, a version a DNS label of up to 63.
    An empty text is accepted, because the built-in kinds don't need it.

    Source: k8s.io/apimachinery ``ParseGroupVersion``, ``validation.IsDNS1123Subdomain``, which
    doesn't limit the labels of a subdomain, and ``IsDNS1123Label``; docs/deviations.md X116.
    """
    if not api_version:
        return ""
    group, slash, version = api_version.rpartition("/")
    if slash and not _is_subdomain(group):
        return f"apiVersion {_shown(api_version)}: the group is no DNS-1123 subdomain"
    if len(version) > _LONGEST_LABEL or not _LABEL.fullmatch(version):
        return f"apiVersion {_shown(api_version)}: the version is no DNS label"
    return ""


def reference_problem(api_version: str, name: str) -> str:
    """Return the reason why an object with this name can't exist; empty if it can.

    Source: k8s.io/apimachinery ``IsValidPathSegmentName`` for the name.
    """
    problem = api_version_problem(api_version)
    if problem:
        return problem
    if not name or len(name) > _LONGEST_NAME or name in (".", "..") or not name.isprintable():
        return f"name {_shown(name)}: no object can have it"
    if "/" in name or "%" in name:
        return f"name {_shown(name)}: no object's name has '/' or '%'"
    return ""


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, text.split(".")))


def _shown(text: str) -> str:
    """Quote, escape and shorten a user's text."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
