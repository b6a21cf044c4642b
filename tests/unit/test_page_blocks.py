"""Command blocks and manifests of the pages: how they are read, and which a test must run."""

import re
from pathlib import Path

import msgspec
import pytest

import page_commands
from admission import vpa_decoding, vpa_validation
from common.features import FeatureGates
from page_commands import DOCS, PageCommand

FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize(
    ("shown", "printed", "want"),
    [
        pytest.param("a b\n", "a   b\n", True, id="spaces between columns"),
        pytest.param("a b\n", "a c\n", False, id="another text"),
        pytest.param("a …\n", "a 12s\n", True, id="rest of a line"),
        pytest.param("a …\n", "a 12s\nb\n", False, id="… within a line is one line"),
        pytest.param("…\nb\n", "x\ny\nb\n", True, id="… alone is any lines"),
        pytest.param("…\nb\n", "b\n", True, id="… alone is also no line"),
        pytest.param("…\nb\n", "x\nbc\n", False, id="the line after … counts"),
        pytest.param("", "", True, id="no output"),
        pytest.param("", "a\n", False, id="unexpected output"),
        pytest.param("(a) [b]\n", "(a) [b]\n", True, id="no pattern of its own"),
    ],
)
def test_an_output_matches(shown: str, printed: str, *, want: bool) -> None:
    assert PageCommand("page.md", "command", shown).matches(printed) is want


def test_commands_and_manifests_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_commands, "DOCS", tmp_path)
    (tmp_path / "a.md").write_text(
        '# A\n```yaml title="a.yaml"\nkind: A\n```\n'
        "```console\n$ one \\\n    more\nfirst\nsecond\n$ two\n```\n"
        "```sh\nthree\n```\n```console\n$ four | \\\n  five\n```\n"
    )
    found = page_commands.commands("a.md")
    assert [each.command for each in found] == ["one \\\n    more", "two", "four | \\\n  five"]
    assert [each.output for each in found] == ["first\nsecond\n", "", ""]
    assert page_commands.manifests("a.md") == {"a.yaml": "kind: A\n"}
    assert page_commands.pages() == ["a.md"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```console\noutput\n$ one\n```\n", id="output before the first command"),
        pytest.param('```yaml title="a"\na: 1\n```\n' * 2, id="two manifests of one name"),
    ],
)
def test_a_mistake_on_a_page_is_reported(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_commands, "DOCS", tmp_path)
    (tmp_path / "a.md").write_text(text)
    with pytest.raises(ValueError, match=r"a\.md"):
        page_commands.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_fenced_blocks_are_run(page: Path) -> None:
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        assert language == "console" or not re.search(r"^\$ ", text, re.MULTILINE), text


@pytest.mark.parametrize("page", page_commands.pages())
def test_manifests_have_a_name(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert len(re.findall(r"^```yaml", text, re.MULTILINE)) == len(page_commands.manifests(page))


@pytest.mark.parametrize("page", page_commands.pages())
def test_vpas_of_pages_are_valid(page: str) -> None:
    for each in page_commands.objects(page):
        assert {"apiVersion", "kind", "metadata", "spec"} - each.keys() <= {"spec"}
        if each["kind"] == "VerticalPodAutoscaler":
            vpa = vpa_decoding.decode(msgspec.json.encode(each))
            gates = FeatureGates.parse("CPUStartupBoost=true")
            verdict = vpa_validation.admit_vpa(vpa, None, gates)
            assert (verdict.errors, verdict.warnings, verdict.patches) == ((), (), ())
