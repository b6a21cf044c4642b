"""The documentation as a site: links have targets, and pages look as on a repository host."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import diagrams
import site_pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")),
    *site_pages.OUTSIDE,
]
BLOCK = re.compile(r"<(h[1-6]|ul|ol|li|pre|table|tr)\b")
FOREIGN = re.compile(r'<(?!a\b|link rel="canonical")[^>]* (?:src|href)="(?:https?:)?//')
ARTICLE = re.compile(r"<article.*?</article>", re.DOTALL)


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    options = ("--config-file", config, "--site-dir", folder)
    command = (sys.executable, "-P", "-m", "mkdocs", "build", *options)
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def rendered_file(page: str, site: Path) -> Path:
    stem = Path(page).stem
    name = "index.html" if stem in ("README", "index") else f"{stem}/index.html"
    return (site / page).parent / name


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_blocks_that_a_repository_host_shows(page: str, site: Path) -> None:
    """The two kinds of Markdown differ in lists that have no empty line before or little indent."""
    file = ROOT / page if page in site_pages.OUTSIDE else DOCS / page
    (article,) = ARTICLE.findall(rendered_file(page, site).read_text(encoding="utf-8"))
    rendered = MarkdownIt("commonmark").enable("table").render(file.read_text(encoding="utf-8"))
    assert Counter(BLOCK.findall(article)) == Counter(BLOCK.findall(rendered))


@pytest.mark.parametrize("name", sorted(diagrams.DIAGRAMS))
def test_a_diagram_is_up_to_date(name: str) -> None:
    same = (DOCS / name).read_text(encoding="utf-8") == diagrams.DIAGRAMS[name]
    assert same, f"python -P docs/diagrams.py updates docs/{name}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_nothing_from_another_host(page: str, site: Path) -> None:
    """The theme would load a program for Mermaid diagrams, and web fonts."""
    html = rendered_file(page, site).read_text(encoding="utf-8")
    assert (
        re.findall(r'<(?!a\b|link rel="canonical")[^>]* (?:src|href)="(?:https?:)?//', html) == []
    )
    assert "mermaid" not in re.findall(r'class="(\w+)', html)


def test_programs_are_not_part_of_the_site(site: Path) -> None:
    assert list(site.rglob("*.py")) == []


@pytest.mark.parametrize(
    ("page", "link", "want"),
    [
        pytest.param("index.md", "flags.md", "flags.md", id="beside"),
        pytest.param("spec/updater.md", "../flags.md", "../flags.md", id="one folder up"),
        pytest.param("index.md", "../CONTRIBUTING.md", "CONTRIBUTING.md", id="out of docs"),
        pytest.param(
            "spec/updater.md", "../../tests/README.md", "../tests/README.md", id="from a folder"
        ),
        pytest.param("CONTRIBUTING.md", "docs/flags.md", "flags.md", id="into docs"),
        pytest.param("tests/README.md", "../docs/flags.md", "../flags.md", id="folder into docs"),
        pytest.param("tests/README.md", "../CONTRIBUTING.md", "../CONTRIBUTING.md", id="outside"),
    ],
)
def test_links_between_files_become_links_between_pages(page: str, link: str, want: str) -> None:
    assert site_pages.site_link(link, page) == want


def test_links_to_other_hosts_and_anchors_are_unchanged() -> None:
    text = "[a](https://host/x.md) [b](#b) [c](mailto:x)"
    assert site_pages.LINK.sub("", text) == text


def test_a_link_without_a_target_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n[b](b.md) [c](#c) [d](../../d)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nhooks: []\nnav: [index.md]\n")
    done = build(config, tmp_path / "site")
    assert done.returncode == 1
    for named in ("'b.md'", "'#c'", "'../../d'", "lost.md"):
        assert named in done.stderr, done.stderr
