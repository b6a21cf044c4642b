"""Values of ``--feature-gates``."""

from dataclasses import replace

import pytest

from common.features import FeatureGates

ALL = FeatureGates(cpu_startup_boost=True, in_place=True, native_sidecar=True, per_vpa_config=True)
ALL_BUT_IN_PLACE = replace(ALL, in_place=False)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", FeatureGates()),
        ("InPlace=true", FeatureGates(in_place=True)),
        ("InPlace=true, PerVPAConfig=T", FeatureGates(in_place=True, per_vpa_config=True)),
        ("InPlace=true,InPlace=false", FeatureGates()),
        ("AllAlpha=true", ALL),
        ("AllAlpha=true,InPlace=false", ALL_BUT_IN_PLACE),
        ("InPlace=false,AllAlpha=true", ALL_BUT_IN_PLACE),
        ("AllAlpha=false,CPUStartupBoost=1", FeatureGates(cpu_startup_boost=True)),
        ("AllBeta=true", FeatureGates()),
        ("NativeSidecar=true", FeatureGates(native_sidecar=True)),
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
def test_invalid_feature_gates(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        FeatureGates.parse(text)


@pytest.mark.parametrize("gates", [FeatureGates(), FeatureGates(in_place=True), ALL])
def test_the_text_of_feature_gates_parses_back(gates: FeatureGates) -> None:
    assert FeatureGates.parse(str(gates)) == gates
