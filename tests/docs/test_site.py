"""The site has every page in its navigation and no link that leads out of it."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load_settings():
    spec = importlib.util.spec_from_file_location("site_settings", DOCS / "site" / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SETTINGS = load_settings()


def page_text(name: str, text: str) -> str:
    app = SimpleNamespace(srcdir=str(DOCS), env=SimpleNamespace(doc2path=lambda name: str(DOCS / f"{name}.md")))
    source = [text]
    SETTINGS.without_repository_links(app, name, source)
    return source[0]


def test_navigation_lists_every_page() -> None:
    listed = {line for line in SETTINGS.navigation(DOCS.resolve()) if line and not line.startswith((":", "`"))}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")} - {"README"}
    assert listed == pages


def test_links_within_the_documentation_stay_and_others_become_text() -> None:
    name = "how-to/plan-a-change"
    assert page_text(name, "[fault](break-a-simulated-fleet.md#x)") == "[fault](break-a-simulated-fleet.md#x)"
    assert page_text(name, "[`a`](../../stories/demo.yaml)") == "`a`"
    assert page_text(name, "[Architecture](../../ARCHITECTURE.md)") == "Architecture (`ARCHITECTURE.md`)"
    assert page_text(name, "[web](https://example.com)") == "[web](https://example.com)"


def test_titles_of_blocks_are_left_out() -> None:
    assert page_text("how-to/plan-a-change", '```yaml title="a.yaml"\n') == "```yaml\n"


def test_links_of_all_pages_lead_to_files() -> None:
    for page in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *DOCS.rglob("*.md")]:
        for match in SETTINGS.LINK.finditer(page.read_text(encoding="utf-8")):
            target = match["target"].partition("#")[0]
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {match[0]}"
