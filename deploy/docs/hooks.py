"""Hooks of the documentation site: pages and files that lie outside of this folder, and the links to them."""

import os
import re
from pathlib import Path

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

DOCS = Path(__file__).parent.resolve()
ROOT = DOCS.parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File of the checkout → its name on the site."""
_LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")


def on_files(files: Files, *, config: ProperDocsConfig) -> Files:
    """Add the pages at the root, and each other file outside of the folder that a page links to."""
    pages = {DOCS / file.src_uri: file.src_uri for file in files if file.src_uri.endswith(".md")}
    pages |= {ROOT / name: uri for name, uri in PAGES.items()}
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=relinked((ROOT / name).read_text(), ROOT)))
    for path in {found for page in pages for found in _linked(page) if found.is_file() and found not in pages}:
        if DOCS not in path.parents:
            files.append(File.generated(config, _uri(path), content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Point the links of a page at the names that its targets have on the site."""
    del config, files
    return markdown if page.file.src_uri in PAGES.values() else relinked(markdown, DOCS)


def relinked(markdown: str, folder: Path) -> str:
    """Markdown that lies in ``folder``, with its links relative to the site's root."""
    return _LINK.sub(lambda link: f"{link[1]}{_uri(_target(folder, link[2]))}", markdown)


def _linked(page: Path) -> set[Path]:
    return {_target(page.parent, link[2]) for link in _LINK.finditer(page.read_text())}


def _target(folder: Path, link: str) -> Path:
    return Path(os.path.normpath(folder / link))


def _uri(path: Path) -> str:
    if DOCS in path.parents:
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return PAGES.get(name, f"files/{name}")
