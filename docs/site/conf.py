"""The settings of the static site that `make docs` builds from docs/ with Sphinx; all assets are in the output."""

import re
from pathlib import Path
from typing import Any

project = "Trimtab"
copyright = "the Trimtab authors"  # noqa: A001 - the name that Sphinx reads
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "README"
exclude_patterns = ["site"]
html_theme = "furo"
html_title = "Trimtab"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_extra_path = ["../reference/story.schema.json"]
myst_heading_anchors = 4
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>(?!https?:|#|mailto:)[^)\s]+)\)")
SECTIONS = {"Tutorials": "tutorials", "How-to guides": "how-to", "Explanation": "explanation", "Decisions": "decisions"}
TITLE = re.compile(r'^(```\w+) title="[^"]*"', re.MULTILINE)


def without_repository_links(app: Any, name: str, source: list[str]) -> None:
    """Show links to files outside of docs/ as names: the site is read without the repository."""
    here, root = Path(app.env.doc2path(name)).parent, Path(app.srcdir).resolve()

    def replace(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"].partition("#")[0]
        resolved = (here / target).resolve()
        if resolved.is_relative_to(root) and resolved.is_file() and resolved.suffix == ".md":
            return match[0]
        return text if text.startswith("`") or resolved.name in text else f"{text} (`{resolved.name}`)"

    source[0] = TITLE.sub(r"\1", LINK.sub(replace, source[0]))
    if name == root_doc:
        source[0] += "\n".join(navigation(root))


def navigation(root: Path) -> list[str]:
    """The tree of all pages, by kind, which the sidebar shows."""
    lines = []
    for title, folder in {**SECTIONS, "Reference": "reference"}.items():
        pages = sorted(page.relative_to(root).with_suffix("") for page in (root / folder).glob("*.md"))
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *map(str, pages), "```"]
    return [*lines, "", "```{toctree}", ":hidden:", "", "performance", "```", ""]


def setup(app: Any) -> None:
    app.connect("source-read", without_repository_links)
