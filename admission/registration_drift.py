"""Whether the stored webhook configuration is still what the flags ask for, field by field.

Ours are the fields that decide whether, how and where API servers send reviews; the others are not.

Source: admission.md 9. The reference looks once, at its start (X41).
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_EXEMPTING = ("NotIn", "DoesNotExist")  # objects that don't know the label are still reviewed
_EXACT = ("admissionReviewVersions", "failurePolicy", "sideEffects", "timeoutSeconds")
_SELECTORS = ("namespaceSelector", "objectSelector")


def differences(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the fields of ours that are not as ``wanted``; none: the configuration is right.

    An addition that leaves us what we need is no difference: annotations, labels, CA
    certificates and webhooks besides ours, ``matchConditions``, ``matchPolicy`` and
    ``reinvocationPolicy``, and requirements of a selector that only exempt something. Some cloud
    providers add one to every webhook, at once and each time: removing it
    would never end. A requirement that objects have to meet (``In``, ``Exists``, a label)
    would shut out everybody, and is a difference.

    Where no CA bundle is wanted, it is managed elsewhere, and right as it is.
    """
    (ours,) = wanted["webhooks"]
    hook = _named(ours["name"], there)
    if hook is None:
        return ("webhooks",)
    labels = there["metadata"].get("labels") or {}
    found = {
        "labels": wanted["metadata"].get("labels", {}).items() <= labels.items(),
        **{name: hook.get(name) == ours[name] for name in _EXACT},
        "clientConfig": _target(hook) == _target(ours),
        "caBundle": _covers(_bundle(hook), _bundle(ours)),
        "rules": _rules(hook) == _rules(ours),
        **{name: _selects_enough(hook.get(name), ours[name]) for name in _SELECTORS},
    }
    return tuple(name for name, right in found.items() if not right)


def exemptions(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the fields that exempt more than the flags say; they stay."""
    (ours,) = wanted["webhooks"]
    hook = _named(ours["name"], there) or {}
    found = [name for name in _SELECTORS if _added(hook.get(name), ours[name])]
    return (*found, *(["matchConditions"] if hook.get("matchConditions") else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBackoff:
    """How often our configuration is restored while another writer restores a different one.

    Two replicas with different flags, as in a rollout, each find that the other has changed what
    they wrote. Neither knows a sibling from an operator's slip, so each restores its own, at
    once the first time and then after pauses that double from ``first_pause`` up to
    ``longest_pause``. A rollout of a minute costs a handful of writes, and a fight without end one
    write of each side per ten minutes. The last one to start has the shorter pauses, so the newer
    flags win where there is a winner; and once the other is gone, ours are back within one pause.
    A quiet time of twice the longest pause is the end of a fight.
    """

    first_pause: float = 20.0  # seconds
    longest_pause: float = 600.0  # seconds
    times: int = 0  # put back in this fight
    last: float = 0.0  # when; the event loop's time

    def allows(self, now: float) -> bool:
        """Return whether the configuration may be put back at ``now``."""
        return self.times == 0 or self._over(now) or now >= self.last + self._pause

    def after(self, now: float) -> "RestoreBackoff":
        """Return the same, with one more write at ``now``."""
        times = 1 if self._over(now) else self.times + 1
        return RestoreBackoff(
            first_pause=self.first_pause, longest_pause=self.longest_pause, times=times, last=now
        )

    @property
    def _pause(self) -> float:
        doubled: float = self.first_pause * 2 ** min(self.times - 1, 30)
        return min(doubled, self.longest_pause)

    def _over(self, now: float) -> bool:
        return now >= self.last + 2 * self.longest_pause


def _named(name: str, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for each in configuration.get("webhooks") or ():
        if each.get("name") == name:
            found: Mapping[str, Any] = each
            return found
    return None


def _target(hook: Mapping[str, Any]) -> dict[str, Any]:
    """Return where reviews are sent, with the port that API servers fill in."""
    config = hook.get("clientConfig") or {}
    service = config.get("service")
    return {
        "url": config.get("url"),
        "service": {"port": 443, "path": None, **service} if service else None,
    }


def _bundle(hook: Mapping[str, Any]) -> str:
    return (hook.get("clientConfig") or {}).get("caBundle") or ""


def _covers(stored: str, wanted: str) -> bool:
    """Return whether API servers trust all that is ``wanted``; both are in base64, or empty.

    They may trust more: while an authority is renewed, some files hold the old one and the new
    one, and some only one of them, until the kubelets have brought all files up to date.
    """
    if wanted in ("", stored):
        return True
    try:
        have, need = (_certificates(base64.b64decode(text)) for text in (stored, wanted))
    except binascii.Error:
        return False
    return bool(need) and need <= have


def _certificates(bundle: bytes) -> frozenset[bytes]:
    """Return the certificates of a PEM file, whatever is between them and however lines end."""
    return frozenset(b"".join(each.split()) for each in _CERTIFICATE.findall(bundle))


def _rules(hook: Mapping[str, Any]) -> frozenset[bytes]:
    """Return the registered rules, in whatever order, with the scope that API servers fill in."""
    return _distinct({"scope": "*", **_sorted(rule)} for rule in hook.get("rules") or ())


def _selects_enough(there: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Return whether our requirements are there, and no others that objects have to meet."""
    if (there or {}).get("matchLabels"):
        return False
    expressions = (there or {}).get("matchExpressions") or ()
    ours = _distinct(map(_sorted, wanted.get("matchExpressions") or ()))
    demanding = (each for each in expressions if each.get("operator") not in _EXEMPTING)
    found = _distinct(map(_sorted, expressions))
    return ours <= found and _distinct(map(_sorted, demanding)) <= ours


def _added(there: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    found = _distinct(map(_sorted, (there or {}).get("matchExpressions") or ()))
    return bool(found - _distinct(map(_sorted, wanted.get("matchExpressions") or ())))


def _sorted(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item whose lists are sets."""
    return {key: sorted(map(str, v)) if isinstance(v, list) else v for key, v in item.items()}


def _distinct(items: Iterable[Mapping[str, Any]]) -> frozenset[bytes]:
    return frozenset(msgspec.json.encode(item, order="sorted") for item in items)
