"""Test cases of the fields behind gates (admission.md 8), and of VPAs that already use them."""

from collections.abc import Iterator
from typing import Any

from vpa_rules import (
    CONTAINER,
    FORBIDDEN,
    GATES,
    INVALID,
    MILLI,
    REQUIRED,
    TARGET,
    UNSUPPORTED,
    UPDATE,
    Case,
    Spec,
    container,
    spec,
    update,
)

NO_CONFIG = "Forbidden: not supported when feature flag PerVPAConfig is disabled"
NO_BOOST = (
    "Forbidden: in order to use startupBoost, you must enable feature gate CPUStartupBoost "
    "in the admission-controller args"
)


def boost(**fields: Any) -> Spec:
    return spec(startupBoost={"cpu": fields})


def container_boost(**fields: Any) -> Spec:
    return container(startupBoost={"cpu": fields})


def config(name: str, good: object, bad: object, shown: str, least: str) -> Iterator[Case]:
    """Yield the cases of one field of the gate PerVPAConfig."""
    make, prefix = (update, UPDATE) if name == "evictAfterOOMSeconds" else (container, CONTAINER)
    place = f"{prefix}.{name}"
    wrong = (INVALID, place, f"Invalid value: {shown}: must be greater than or equal to {least}")
    right, used = make(**{name: good}), container(oomBumpUpRatio="1.5")
    yield Case(id=f"{name}: gate off", spec=right, want=(FORBIDDEN, place, NO_CONFIG))
    yield Case(
        id=f"{name}: gate off, new on UPDATE",
        spec=right,
        old=TARGET,
        want=(FORBIDDEN, place, NO_CONFIG),
    )
    yield Case(id=f"{name}: gate off, stored", spec=right, old=right)
    yield Case(id=f"{name}: gate off, another such field stored", spec=right, old=used)
    yield Case(id=f"{name}: gate off, taken away", spec=TARGET, old=right)
    yield Case(id=f"{name}: least that passes", spec=right, gates=GATES)
    yield Case(id=f"{name}: too small", spec=make(**{name: bad}), gates=GATES, want=wrong)
    yield Case(id=f"{name}: too small, and stored", spec=make(**{name: bad}), old=right, want=wrong)


CONFIG = [
    *config("evictAfterOOMSeconds", 1, 0, "0", "1"),
    *config("oomBumpUpRatio", "1", "999m", "0.999", "1.0"),
    *config("oomMinBumpUp", 0, -1, "-1", "0"),
    *config("memoryAggregationIntervalSeconds", 1, 0, "0", "1"),
    *config("memoryAggregationIntervalCount", 1, 0, "0", "1"),
]


def boosts(name: str, path: str, make: Any) -> Iterator[Case]:
    """Yield the cases of a start-up boost, of the whole VPA or of one container."""
    right = make(type="Factor", factor=1)
    forbidden = (FORBIDDEN, path, NO_BOOST)
    yield Case(id=f"{name}: gate off", spec=right, want=forbidden)
    yield Case(id=f"{name}: gate off, new on UPDATE", spec=right, old=TARGET, want=forbidden)
    yield Case(id=f"{name}: gate off, no further checks", spec=make(type="Z"), want=forbidden)
    yield Case(id=f"{name}: gate off, stored", spec=right, old=right)
    other = container_boost(type="Factor", factor=2)
    yield Case(id=f"{name}: gate off, another boost stored", spec=right, old=other)
    yield Case(id=f"{name}: gate off, taken away", spec=TARGET, old=right)
    yield Case(id=f"{name}: factor 1", spec=right, gates=GATES)
    yield Case(id=f"{name}: quantity", spec=make(type="Quantity", quantity="1m"), gates=GATES)
    seconds = make(type="Factor", factor=2, durationSeconds=-1)
    yield Case(id=f"{name}: the sign of durationSeconds is not checked", spec=seconds, gates=GATES)
    for title, fields, kind, place, sentence in (
        ("no type", {}, REQUIRED, "type", "Required value: must be either Factor or Quantity"),
        (
            "unknown type",
            {"type": "Z"},
            UNSUPPORTED,
            "type",
            'Unsupported value: "Z": supported values: "Factor", "Quantity"',
        ),
        (
            "A6 no factor",
            {"type": "Factor"},
            REQUIRED,
            "factor",
            "Required value: required when type is Factor",
        ),
        (
            "factor 0",
            {"type": "Factor", "factor": 0},
            INVALID,
            "factor",
            "Invalid value: 0: must be >= 1 for type Factor",
        ),
        (
            "no quantity",
            {"type": "Quantity"},
            REQUIRED,
            "quantity",
            "Required value: required when type is Quantity",
        ),
        (
            "quantity finer than 1m",
            {"type": "Quantity", "quantity": "1500u"},
            INVALID,
            "quantity",
            f'Invalid value: "1500u": {MILLI}',
        ),
    ):
        want = (kind, f"{path}.cpu.{place}", sentence)
        yield Case(id=f"{name}: {title}", spec=make(**fields), gates=GATES, want=want)


BOOSTS = [
    *boosts("startupBoost", "spec.startupBoost", boost),
    *boosts("startupBoost of a container", f"{CONTAINER}.startupBoost", container_boost),
    Case(
        id="startupBoost: an empty one that is stored allows none",
        spec=boost(type="Factor", factor=2),
        old=spec(startupBoost={}),
        want=(FORBIDDEN, "spec.startupBoost", NO_BOOST),
    ),
]

GATE_RULES = [*CONFIG, *BOOSTS]
