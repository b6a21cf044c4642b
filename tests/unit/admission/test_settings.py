"""Settings of the admission controller: invalid flags, and values that depend on several."""

import pytest

from admission.settings import AdmissionSettings
from common.errors import ConfigError
from common.flags import read_flags


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--status-lease-update-interval=0"], "must be positive"),
        (["--register-by-url", "--webhook-port=8000"], "https://"),
        (["--register-by-url", "--webhook-address=http://a", "--webhook-port=1"], "https://"),
        (["--register-by-url", "--webhook-address=https://a"], "--webhook-port"),
        (["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"], "exclude each other"),
        (["--max-allowed-cpu-boost=much"], "not a quantity"),
        (["--workers=2"], "--workers"),
        (["--workers", "2"], "--workers"),
    ],
)
def test_invalid_flags(arguments: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_flags(AdmissionSettings, arguments)


def test_the_flags_of_the_reference_s_manifest_are_accepted() -> None:
    settings = read_flags(AdmissionSettings, ["--v=4", "--stderrthreshold=info", "--reload-cert"])
    assert settings.reload_cert


@pytest.mark.parametrize(("timeout", "deadline"), [(30, 2.0), (8, 2.0), (5, 1.25), (1, 0.25)])
def test_the_lookup_timeout_is_well_below_the_webhook_timeout(
    timeout: int, deadline: float
) -> None:
    settings = read_flags(AdmissionSettings, [f"--webhook-timeout-seconds={timeout}"])
    assert settings.lookup_timeout == deadline


def test_the_namespace_of_the_lease_comes_from_the_flag_or_the_environment() -> None:
    environ = {"NAMESPACE": "vpa"}
    assert read_flags(AdmissionSettings, [], environ=environ).status_lease_namespace == "vpa"
    arguments = ["--status-lease-namespace=other"]
    assert (
        read_flags(AdmissionSettings, arguments, environ=environ).status_lease_namespace == "other"
    )
