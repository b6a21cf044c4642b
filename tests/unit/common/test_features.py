"""Feature gates as ``--feature-gates`` takes them."""

import pytest

from common.features import FeatureGates

ALL = FeatureGates(cpu_startup_boost=True, in_place=True, per_vpa_config=True)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", FeatureGates()),
        ("InPlace=true", FeatureGates(in_place=True)),
        ("InPlace=true, PerVPAConfig=T", FeatureGates(in_place=True, per_vpa_config=True)),
        ("InPlace=true,InPlace=false", FeatureGates()),
        ("AllAlpha=true", ALL),
        ("AllAlpha=true,InPlace=false", FeatureGates(cpu_startup_boost=True, per_vpa_config=True)),
        ("InPlace=false,AllAlpha=true", FeatureGates(cpu_startup_boost=True, per_vpa_config=True)),
        ("AllAlpha=false,CPUStartupBoost=1", FeatureGates(cpu_startup_boost=True)),
        ("AllBeta=true", FeatureGates()),
        ("InPlaceOrRecreate=true", FeatureGates()),
        ("InPlaceOrRecreate=false", FeatureGates()),
        (",InPlace=true,", FeatureGates(in_place=True)),
    ],
)
def test_parse(text: str, want: FeatureGates) -> None:
    assert FeatureGates.parse(text) == want


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("InPlace", "Gate=true"),
        ("InPlace=yes", "Gate=true"),
        ("InPlace=", "Gate=true"),
        ("inplace=true", "unknown feature gate 'inplace'"),
        ("Teleport=true", "unknown feature gate 'Teleport'"),
        ("=true", "unknown feature gate ''"),
    ],
)
def test_a_text_that_is_no_gate(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        FeatureGates.parse(text)


@pytest.mark.parametrize("gates", [FeatureGates(), FeatureGates(in_place=True), ALL])
def test_the_text_of_gates_gives_them_back(gates: FeatureGates) -> None:
    assert FeatureGates.parse(str(gates)) == gates
