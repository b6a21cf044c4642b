"""A hook of mkdocs: pages of the site that are not in docs/, and links to and from them.

The site has the pages of docs/ at its root, and the others at their paths in the repository. Links
in all of them name files of the repository, so that they work there, too.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"
OUTSIDE = (
    *("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("benchmarks/README.md", "deploy/chart/README.md", "sandbox/README.md", "tests/README.md"),
)
LINK = re.compile(r"(?<=\]\()(?!\w+:)[^)#\s]+")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path in OUTSIDE:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace links between files of the repository by links between pages of the site."""
    return LINK.sub(lambda link: site_link(link[0], page.file.src_uri), markdown)


def site_link(link: str, page: str) -> str:
    """Return the link from a page of the site for a link from its file."""
    file = page if page in OUTSIDE else DOCS + page
    target = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
    return posixpath.relpath(target.removeprefix(DOCS), posixpath.dirname(page) or ".")
