"""The comparison of the stored webhook configuration with the wanted one, field by field.

Compared are the fields that decide whether, how and where API servers send reviews.

Source: admission.md 9. The reference writes the configuration once, at its start (X41).
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_EXEMPTING = ("NotIn", "DoesNotExist")  # objects without the label are still reviewed
_EXACT = ("admissionReviewVersions", "failurePolicy", "sideEffects", "timeoutSeconds")
_SELECTORS = ("namespaceSelector", "objectSelector")
_FIRST_PAUSE = 20.0  # seconds between two restorations
_LONGEST_PAUSE = 600.0


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that differ from ``wanted``; none if it is right.

    Additions are not differences: other annotations, labels, CA certificates and webhooks,
    ``matchConditions``, ``matchPolicy`` and ``reinvocationPolicy``, and requirements of a selector
    that only exempt objects (``NotIn``, ``DoesNotExist``). Some cloud providers add one to every
    webhook, each time that it is removed. A requirement that objects have to
    meet (``In``, ``Exists``, a label) excludes nearly all objects and is a difference.

    If ``wanted`` has no CA bundle, another program manages it, and any bundle is right.
    """
    (ours,) = wanted["webhooks"]
    hook = _named(ours["name"], stored)
    if hook is None:
        return ("webhooks",)
    labels = stored["metadata"].get("labels") or {}
    found = {
        "labels": wanted["metadata"].get("labels", {}).items() <= labels.items(),
        **{name: hook.get(name) == ours[name] for name in _EXACT},
        "clientConfig": _target(hook) == _target(ours),
        "caBundle": _covers(_bundle(hook), _bundle(ours)),
        "rules": _rules(hook) == _rules(ours),
        **{name: _selects_enough(hook.get(name), ours[name]) for name in _SELECTORS},
    }
    return tuple(name for name, right in found.items() if not right)


def exemptions(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields that exempt more objects than ``wanted``."""
    (ours,) = wanted["webhooks"]
    hook = _named(ours["name"], stored) or {}
    found = [name for name in _SELECTORS if _added(hook.get(name), ours[name])]
    return (*found, *(["matchConditions"] if hook.get("matchConditions") else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBackoff:
    """The backoff between restorations of the configuration.

    Two replicas with different flags, as during a rollout, overwrite each other's configuration.
    A replica can't distinguish another replica from an operator's mistake. So each restores its
    own configuration: at once the first time, then after pauses that double from 20 seconds to ten
    minutes. The replica that started last has the shorter pauses, so the newer flags prevail. After
    twice the longest pause without a restoration the backoff is reset.
    """

    times: int = 0  # restorations since the last reset
    last: float = 0.0  # time of the last restoration on the event loop's clock

    def allows(self, now: float) -> bool:
        """Return whether the configuration may be restored at ``now``."""
        return self.times == 0 or self._over(now) or now >= self.last + self._pause

    def after(self, now: float) -> "RestoreBackoff":
        """Return the backoff after a restoration at ``now``."""
        times = 1 if self._over(now) else self.times + 1
        return RestoreBackoff(times=times, last=now)

    @property
    def _pause(self) -> float:
        doubled: float = _FIRST_PAUSE * 2 ** min(self.times - 1, 30)
        return min(doubled, _LONGEST_PAUSE)

    def _over(self, now: float) -> bool:
        return now >= self.last + 2 * _LONGEST_PAUSE


def _named(name: str, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for each in configuration.get("webhooks") or ():
        if each.get("name") == name:
            found: Mapping[str, Any] = each
            return found
    return None


def _target(hook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target of reviews, with the port that API servers default."""
    config = hook.get("clientConfig") or {}
    service = config.get("service")
    return {
        "url": config.get("url"),
        "service": {"port": 443, "path": None, **service} if service else None,
    }


def _bundle(hook: Mapping[str, Any]) -> str:
    return (hook.get("clientConfig") or {}).get("caBundle") or ""


def _covers(stored: str, wanted: str) -> bool:
    """Return whether ``stored`` contains all certificates of ``wanted``; both are base64 or empty.

    It may contain more: while an authority is renewed, some pods mount both the old and the new
    authority, and others only one, until the kubelets have updated all volumes.
    """
    if wanted in ("", stored):
        return True
    try:
        have, need = (_certificates(base64.b64decode(text)) for text in (stored, wanted))
    except binascii.Error:
        return False
    return bool(need) and need <= have


def _certificates(bundle: bytes) -> frozenset[bytes]:
    """Return the certificates of a PEM file, without regard to line breaks and other content."""
    return frozenset(b"".join(each.split()) for each in _CERTIFICATE.findall(bundle))


def _rules(hook: Mapping[str, Any]) -> frozenset[bytes]:
    """Return the registered rules as a set, with the scope that API servers default."""
    return _distinct({"scope": "*", **_sorted(rule)} for rule in hook.get("rules") or ())


def _selects_enough(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Return whether a selector has the wanted requirements, and otherwise only exemptions."""
    if (stored or {}).get("matchLabels"):
        return False
    expressions = (stored or {}).get("matchExpressions") or ()
    ours = _distinct(map(_sorted, wanted.get("matchExpressions") or ()))
    demanding = (each for each in expressions if each.get("operator") not in _EXEMPTING)
    found = _distinct(map(_sorted, expressions))
    return ours <= found and _distinct(map(_sorted, demanding)) <= ours


def _added(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    found = _distinct(map(_sorted, (stored or {}).get("matchExpressions") or ()))
    return bool(found - _distinct(map(_sorted, wanted.get("matchExpressions") or ())))


def _sorted(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item with its lists sorted, because their order has no meaning."""
    return {key: sorted(map(str, v)) if isinstance(v, list) else v for key, v in item.items()}


def _distinct(items: Iterable[Mapping[str, Any]]) -> frozenset[bytes]:
    return frozenset(msgspec.json.encode(item, order="sorted") for item in items)
