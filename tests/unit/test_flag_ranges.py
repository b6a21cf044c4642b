"""Flag values out of range are refused, with flag, value and permitted range."""

import pytest

import admission.settings
import certs.settings
import recommender.settings
import updater.settings
from common.errors import ConfigError
from common.flags import read_flags

RECOMMENDER = recommender.settings.RecommenderSettings
UPDATER = updater.settings.UpdaterSettings
ADMISSION = admission.settings.AdmissionSettings
CERTS = certs.settings.CertsSettings

PERCENTILES = [
    *(f"--target-{name}-percentile" for name in ("cpu", "memory")),
    *(
        f"--recommendation-{bound}-bound-{name}-percentile"
        for name in ("cpu", "memory")
        for bound in ("lower", "upper")
    ),
]
CAPS = [f"--container-recommendation-max-allowed-{name}" for name in ("cpu", "memory")]
NOT_NEGATIVE = [
    "--recommendation-margin-fraction",
    "--pod-recommendation-min-cpu-millicores",
    "--pod-recommendation-min-memory-mb",
    "--oom-min-bump-up-bytes",
]
LABEL = "must be lower-case letters, digits and '-'"

# settings, flag, a value just in range, a refused value, and a part of the error
RANGES = [
    *((RECOMMENDER, name, "0", "-0.01", "must be from 0 to 1") for name in PERCENTILES),
    *((RECOMMENDER, name, "1", "1.01", "must be from 0 to 1") for name in PERCENTILES),
    *((RECOMMENDER, name, "0.5", "nan", "must be from 0 to 1") for name in PERCENTILES),
    *((RECOMMENDER, name, "0", "-0.01", "must be from 0") for name in NOT_NEGATIVE),
    *((RECOMMENDER, name, "1e6", "inf", "must be from 0") for name in NOT_NEGATIVE),
    *((RECOMMENDER, name, "0", "-1", "must not be negative") for name in CAPS),
    (RECOMMENDER, "--oom-bump-up-ratio", "1", "0.99", "must be from 1"),
    (RECOMMENDER, "--oom-bump-up-ratio", "1.2", "1_2", "not a number"),
    (RECOMMENDER, "--update-worker-count", "1", "0", "must be from 1"),
    (RECOMMENDER, "--update-worker-count", "2", "2.5", "not a whole number"),
    (RECOMMENDER, "--round-memory-bytes", "9" * 18, "9" * 400, "of up to 18 digits"),
    (RECOMMENDER, "--oom-min-bump-up-bytes", "1e300", "1e400", "must be from 0"),
    (RECOMMENDER, "--recommender-interval", "1s", "0", "must be positive"),
    (RECOMMENDER, "--kube-api-qps", "-1", "-inf", "must be finite"),
    (RECOMMENDER, "--vpa-object-namespace", "a" * 63, "a" * 64, LABEL),
    (RECOMMENDER, "--vpa-object-namespace", "kube-system", "kube_system", LABEL),
    (RECOMMENDER, "--ignored-vpa-object-namespaces", "a,b-1", "a,B", LABEL),
    (RECOMMENDER, "--leader-elect-resource-namespace", "0", "-", LABEL),
    (UPDATER, "--eviction-tolerance", "1", "1.1", "must be from 0 to 1"),
    (UPDATER, "--eviction-tolerance", "0", "-0.1", "must be from 0 to 1"),
    (UPDATER, "--pod-update-threshold", "0", "nan", "must be from 0"),
    (UPDATER, "--eviction-rate-limit", "-1", "nan", "must be finite"),
    (UPDATER, "--max-allowed-cpu-boost", "0", "-1m", "must not be negative"),
    (UPDATER, "--admission-controller-status-lease-namespace", "", "Vpa", LABEL),
    (ADMISSION, "--max-allowed-cpu-boost", "2", "-2", "must not be negative"),
    (ADMISSION, "--port", "65535", "65536", "must be from 0 to 65535"),
    (ADMISSION, "--webhook-timeout-seconds", "30", "31", "must be from 1 to 30"),
    (ADMISSION, "--webhook-timeout-seconds", "1", "0", "must be from 1 to 30"),
    (ADMISSION, "--status-lease-namespace", "vpa", "vpa/x", LABEL),
    (CERTS, "--days", "1000000", "1000001", "must be from 1 to 1000000"),
    (CERTS, "--secret-namespace", "vpa", "vpa.x", LABEL),
]


@pytest.mark.parametrize(("settings", "name", "accepted", "refused", "why"), RANGES)
def test_ranges(settings: type, name: str, accepted: str, refused: str, why: str) -> None:
    read_flags(settings, [f"{name}={accepted}"])
    with pytest.raises(ConfigError) as error:
        read_flags(settings, [f"{name}={refused}"])
    assert all(part in str(error.value) for part in (name, why, f"{refused[-1]}'"))


# Rounding up would exceed the cap, which is applied before.
ROUNDING = [
    ("--round-cpu-millicores", CAPS[0], "1000", "1", "1001"),
    ("--round-memory-bytes", CAPS[1], "1024", "1Ki", "1025"),
]


@pytest.mark.parametrize(("rounding", "cap", "accepted", "most", "refused"), ROUNDING)
def test_rounding_larger_than_a_cap(
    rounding: str, cap: str, accepted: str, most: str, refused: str
) -> None:
    read_flags(RECOMMENDER, [f"{rounding}={accepted}", f"{cap}={most}"])
    read_flags(RECOMMENDER, [f"{rounding}={refused}"])
    with pytest.raises(ConfigError, match=f"{rounding} rounds up to .*, more than {cap}={most}"):
        read_flags(RECOMMENDER, [f"{rounding}={refused}", f"{cap}={most}"])
