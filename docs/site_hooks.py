"""What mkdocs adds to docs/: pages made of files outside docs/, links to them, and the play page.

mkdocs.yml names this module. A file outside docs/ becomes a page without a copy in the repository,
and a link to it leads to that page. Pages keep the links that a code host follows.

mkdocs is imported inside the functions, so that tests can read PAGES without it.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {  # file of the repository -> page of the site
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contribute.md",
    "LICENSE": "license.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "codec/FORMAT.md": "format.md",
    "deploy/README.md": "how-to/deploy.md",
    "examples/README.md": "examples/index.md",
    **{
        path.relative_to(ROOT).as_posix(): f"examples/{path.stem}.md"
        for path in sorted((ROOT / "examples").glob("*.py"))
    },
}
ASSETS = {"lcviz/assets/icon.svg": "img/icon.svg"}
PLAY = "index.html"  # the first page
ICON = '<link rel="icon" href="img/icon.svg">\n'
DOCUMENTS = '<a class="documents" href="start.html">Documents</a>\n'
BESIDE = '<button type="button" id="begin-guide"'
NOT_THERE = '<meta http-equiv="refresh" content="0; url=start.html">\n'

_PAGE_OF = PAGES | ASSETS
_FILE_OF = {page: file for file, page in PAGES.items()}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE = re.compile(r"(`[^`]*`)")
_WITHIN_NUMBERS = re.compile(r"(?<=\d) (?=[%→±])|(?<=[→±]) (?=\d)")
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(r'<img src="([^"]+)"[^>]* alt="([^"]+)"[^>]*>')

_log = logging.getLogger("mkdocs.hooks.lcviz")


def on_config(config: Any) -> Any:
    """Name headings as a code host does."""
    from pymdownx.slugs import slugify

    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside docs/, and the play page."""
    from mkdocs.structure.files import File

    for file, page in PAGES.items():
        files.append(File.generated(config, page, content=_as_page(ROOT / file)))
    for file, place in ASSETS.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / file)))
    files.append(File.generated(config, PLAY, content=_play_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links between files of the repository into links between pages of the site.

    Numbers in tables stay in one line, with their sign of percent.
    """
    place = page.file.src_uri
    file = _FILE_OF.get(place, f"docs/{place}")
    markdown = _PICTURE.sub(r"![\2](\1)", markdown)
    parts = _FENCE.split(markdown)  # every second one is code
    parts[::2] = (_LINK.sub(lambda link: _on_site(link, file, place), part) for part in parts[::2])
    parts[::2] = (_ROW.sub(_unbroken, part) for part in parts[::2])
    return "".join(parts)


def _unbroken(row: re.Match[str]) -> str:
    """A row of a table whose numbers do not break over lines. Code stays as it is."""
    parts = _CODE.split(row[0])  # every second one is code
    parts[::2] = (_WITHIN_NUMBERS.sub("\N{NO-BREAK SPACE}", part) for part in parts[::2])
    return "".join(parts)


def _on_site(link: re.Match[str], file: str, place: str) -> str:
    """A link between files of the repository, as a link between pages of the site.

    A link to what is not on the site stays as it is.
    """
    target = os.path.normpath(os.path.join(os.path.dirname(file), link[1]))
    page = _PAGE_OF.get(target, target.removeprefix("docs/"))
    if ":" in link[1] or (page == target):
        return link[0]
    return f"]({os.path.relpath(page, os.path.dirname(place))}{link[2] or ''})"


def _as_page(path: Path) -> str:
    """A Markdown file as it is; another one as a block of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {path.name}\n\n```{path.suffix[1:] or 'text'}\n{text}```\n"


def _play_page() -> str:
    """The play page, with a link to the documents.

    Where a library that it needs is not installed, the documents alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PLAY
        command = [sys.executable, "-m", "lcviz", "play", "-o", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            text = path.read_text(encoding="utf-8")
            text = text.replace("<title", f"{ICON}<title", 1)
            return text.replace(BESIDE, f"{DOCUMENTS}{BESIDE}", 1)
    if "is not installed" not in done.stderr:
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{' '.join(command)}: {done.stderr}")
    _log.info("the play page is left out: %s", done.stderr.strip())
    return NOT_THERE
