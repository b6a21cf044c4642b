"""Feature gates, which switch alpha behaviour on.

Source: vertical-pod-autoscaler/pkg/features/versioned_features.go; recommender.md 14.3.
"""

from dataclasses import dataclass
from typing import Self

from common.flags import boolean

_GATES = {
    "CPUStartupBoost": "cpu_startup_boost",
    "InPlace": "in_place",
    "NativeSidecar": "native_sidecar",
    "PerVPAConfig": "per_vpa_config",
}
_ALL_ALPHA = "AllAlpha"
_ALL_BETA = "AllBeta"
_RETIRED = ("InPlaceOrRecreate",)  # always on since 1.6: accepted, without effect


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureGates:
    """The state of all feature gates; all are alpha and off by default."""

    cpu_startup_boost: bool = False
    in_place: bool = False
    native_sidecar: bool = False
    per_vpa_config: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``--feature-gates``: ``InPlace=true,PerVPAConfig=false``.

        ``AllAlpha`` sets every gate that is not named itself; ``AllBeta`` and the retired
        ``InPlaceOrRecreate`` are accepted and change nothing.

        Raises:
            ValueError: a gate is unknown, or its value isn't a Boolean.
        """
        chosen: dict[str, bool] = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, value = (part.strip() for part in item.partition("=")[::2])
            try:
                chosen[name] = boolean(value)
            except ValueError as error:
                raise ValueError(f"{item!r} is not of the form Gate=true or Gate=false") from error
            if name not in (*_GATES, *_RETIRED, _ALL_ALPHA, _ALL_BETA):
                known = ", ".join((*_GATES, _ALL_ALPHA, _ALL_BETA))
                raise ValueError(f"unknown feature gate {name!r} (known: {known})")
        everything = chosen.get(_ALL_ALPHA, False)
        return cls(**{field: chosen.get(gate, everything) for gate, field in _GATES.items()})

    def __str__(self) -> str:
        """Return the gates that are on, in the syntax of the flag."""
        return ",".join(f"{gate}=true" for gate, field in _GATES.items() if getattr(self, field))
