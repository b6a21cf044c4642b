"""``--help`` and ``--version`` of every program."""

import re

import pytest

from admission.settings import AdmissionSettings
from certs.settings import CertsSettings
from common.flags import declared, groups, meaning, read_flags, show
from controlplane.settings import Settings as ControlPlaneSettings
from demo.settings import Settings as DemoSettings
from recommender.settings import RecommenderSettings
from sandbox.load.settings import Settings as LoadSettings
from sandbox.settings import Settings as SandboxSettings
from updater.settings import UpdaterSettings

PROGRAMS = {
    "recommender": RecommenderSettings,
    "updater": UpdaterSettings,
    "admission": AdmissionSettings,
    "certs": CertsSettings,
    "sandbox": SandboxSettings,
    "sandbox.load": LoadSettings,
    "controlplane": ControlPlaneSettings,
    "demo": DemoSettings,
}


RULE_ID = re.compile(r"\b[ADQX]\d+\b")


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_lists_every_flag_with_its_default(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: type = PROGRAMS[program]
    with pytest.raises(SystemExit) as ended:
        read_flags(settings, ["--help"], program=program)
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for field in declared(settings):
        assert re.search(rf"{field.metadata['flag']}[ ,]", text)
        assert meaning(field) in text, field.metadata["flag"]
    assert all(f" {title}: " in text for title in groups(settings))
    assert not RULE_ID.findall(text)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_flag_has_a_sentence_and_a_metavar(program: str) -> None:
    for field in declared(PROGRAMS[program]):
        name, text, metavar = (field.metadata[key] for key in ("flag", "help", "metavar"))
        assert re.fullmatch(r"[A-Z].*\.", text), name
        assert re.fullmatch(r"[A-Z]+", metavar), name


def test_the_flags_of_a_group_are_listed_together() -> None:
    for settings in PROGRAMS.values():
        fields = [field for group in groups(settings).values() for field in group]
        assert sorted(f.name for f in fields) == sorted(f.name for f in declared(settings))


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_default_parses_back(program: str) -> None:
    settings: type = PROGRAMS[program]
    for field in declared(settings):
        text = show(field.default)
        if text:
            assert field.metadata["parse"](text) == field.default, field.metadata["flag"]
