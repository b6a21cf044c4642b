"""``--help`` of every program: each flag with its default, and exit code 0."""

import pytest

from admission.settings import AdmissionSettings
from certs.settings import CertsSettings
from common.flags import declared, read_flags, show
from controlplane.settings import Settings as ControlPlaneSettings
from demo.settings import Settings as DemoSettings
from recommender.settings import RecommenderSettings
from sandbox.metrics_server.settings import Settings as MetricsServerSettings
from sandbox.settings import Settings as SandboxSettings
from updater.settings import UpdaterSettings

PROGRAMS = {
    "recommender": RecommenderSettings,
    "updater": UpdaterSettings,
    "admission": AdmissionSettings,
    "certs": CertsSettings,
    "sandbox": SandboxSettings,
    "sandbox.metrics_server": MetricsServerSettings,
    "controlplane": ControlPlaneSettings,
    "demo": DemoSettings,
}


def _unwrapped(text: str) -> str:
    """Lines are wrapped anywhere, also at the dashes of a name."""
    return "".join(text.split())


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_help_lists_every_flag_with_its_default(
    program: str, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: type = PROGRAMS[program]
    with pytest.raises(SystemExit) as ended:
        read_flags(settings, [asked], program=program)
    assert ended.value.code == 0
    text = _unwrapped(capsys.readouterr().out)
    for field in declared(settings):
        default = show(field.default)
        shown = field.metadata["help"] + (f" (default: {default})" if default else "")
        assert field.metadata["flag"] in text
        assert _unwrapped(shown) in text, field.metadata["flag"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_default_reads_back(program: str) -> None:
    settings: type = PROGRAMS[program]
    for field in declared(settings):
        text = show(field.default)
        if text:
            assert field.metadata["parse"](text) == field.default, field.metadata["flag"]
