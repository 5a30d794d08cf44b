"""Renders pages and their parts with Jinja2; rows that have not changed are taken from a cache."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trimtab.api.wording import plural, verb
from trimtab.console import text
from trimtab.console.page import Page, View
from trimtab.console.pictures import charts, delivery, fleet_map, flow, history

MAX_ROWS = 20_000
STATIC = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Renderer:
    """The templates, and the rows that were rendered before."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("trimtab.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(
            {
                name: getattr(text, name)
                for name in (
                    *(
                        "ago",
                        "cause_class",
                        "cause_text",
                        "clock_time",
                        "cluster_path",
                        "day_time",
                        "budget_reason",
                        "reason_text",
                        "iso",
                        "one_decimal",
                    ),
                    *("path_to", "percent", "query_of", "replaced", "span", "toggle_word", "workload_path"),
                )
            }
        )
        self._environment.globals |= {"plural": plural, "form": verb}
        for module in (charts, delivery, fleet_map, flow, history):
            self._environment.globals.update({name: as_markup(getattr(module, name)) for name in module.__all__})
        self._environment.globals["asset"] = asset_path
        parts = self._environment.get_template("parts.html").module
        self._environment.globals.update({name: macro for name, macro in vars(parts).items() if name[0] != "_"})
        self._rows: dict[tuple[str, str], tuple[Any, Markup]] = {}
        self._compiled: set[str] = set()

    def is_compiled(self, page: Page) -> bool:
        return page.template in self._compiled

    def compile(self, page: Page) -> None:
        """Compile the templates of a page, which takes a tenth of a second; may be called in a thread."""
        for name in (page.template, "base.html", "rows.html"):
            self._environment.get_template(name)
        self._compiled.add(page.template)

    def page(self, page: Page, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(page.template).render(values, rows=self._rows_of(page, values))

    def template(self, name: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(name).render(values)

    def part(self, page: Page, block: str, values: Mapping[str, Any]) -> str:
        """One block of a page, as it is inside of the whole page."""
        template = self._environment.get_template(page.template)
        context = template.new_context({**values, "rows": {}})
        source = template.blocks.get(block)
        if source is None:
            source = self._environment.get_template("base.html").blocks[block]
        return "".join(source(context))

    def row(self, macro: str, row: Any) -> Markup:
        """A row of a table; rendered again only when its version has changed."""
        key, version = (macro, row["id"]), row["version"]
        known = self._rows.get(key)
        if known is not None and known[0] == version:
            return known[1]
        if len(self._rows) >= MAX_ROWS:
            self._rows.clear()
        module = self._environment.get_template("rows.html").module
        rendered = Markup(getattr(module, macro)(row))  # noqa: S704 - the macro has escaped what it contains
        self._rows[key] = (version, rendered)
        return rendered

    def known_row(self, macro: str, name: str) -> str | None:
        known = self._rows.get((macro, name))
        return None if known is None else str(known[1])

    def _rows_of(self, page: Page, values: Mapping[str, Any]) -> dict[str, Markup]:
        view: View = values["view"]
        return {
            table: Markup("").join(self.row(macro, row) for row in view[name])
            for table, (macro, name, _) in page.rows.items()
        }


def as_markup(picture: Any) -> Any:
    """A function that makes a picture, for templates; its texts have passed `text.esc`."""

    def draw(*arguments: Any, **options: Any) -> Markup:
        return Markup(picture(*arguments, **options))  # noqa: S704

    return draw


@lru_cache
def static_file(name: str) -> tuple[bytes, str]:
    """The content and the hash of a file that browsers load."""
    content = resources.files("trimtab.console").joinpath("static", name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:16]


def asset_path(name: str) -> str:
    return f"/console/static/{name}?v={static_file(name)[1]}"


def build_id() -> str:
    """Changes when the scripts or styles of the pages change."""
    return "-".join(static_file(name)[1][:8] for name in STATIC)


def row_ids(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]
