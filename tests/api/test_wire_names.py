"""docs/reference/names.md and the code agree about our names on the wire."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimtab.api.kind import kinds
from trimtab.api.schema.from_types import crd
from trimtab.runtime.declarations import load_declarations

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
SECTIONS = {
    name: text.split() for name, text in re.findall(r"^### (\S+)\n+```\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
}
BUILT_FROM_A_PREFIX = {"trimtab.dev/reason", "trimtab.dev/prefer-avoid-ttl"}
REGISTRY_PATHS = {"trimtab.dev/disruptionbudgets", "trimtab.dev/disruptionpolicies", "trimtab.dev/priorityorders"}


def fields(path: str, schema: dict) -> Iterator[str]:
    yield path
    inner = schema.get("items", schema) if schema.get("type") == "array" else schema
    for name, field in (inner.get("properties") or {}).items():
        yield from fields(f"{path}{'[]' if inner is not schema else ''}.{name}", field)


def served_fields(kind: str) -> list[str]:
    load_declarations()
    properties = next(v for v in crd(kinds[kind])["spec"]["versions"] if v["storage"])["schema"]["openAPIV3Schema"][
        "properties"
    ]
    return [path for part in ("spec", "status") if part in properties for path in fields(part, properties[part])]


@pytest.mark.parametrize("kind", SECTIONS)
def test_listed_fields_are_served(kind: str) -> None:
    assert [path for path in SECTIONS[kind] if path not in served_fields(kind)] == []


def test_all_fields_of_our_kinds_are_listed() -> None:
    load_declarations()
    ours = [kind.id for kind in kinds.values() if kind.group == "trimtab.dev"]
    assert ours
    for kind in ours:
        assert SECTIONS[kind] == served_fields(kind)


def test_annotations_in_the_source_are_those_of_the_page() -> None:
    literals: set[str] = set()
    for file in (ROOT / "src" / "trimtab").rglob("*.py"):
        literals |= set(re.findall(r"(?<!simulate\.)\btrimtab\.dev/[a-z][a-z-]+", file.read_text(encoding="utf-8")))
    listed = set(re.findall(r"^\| `(trimtab\.dev/[a-z-]+)`", PAGE, re.MULTILINE))
    assert literals - REGISTRY_PATHS == listed - BUILT_FROM_A_PREFIX


def test_listed_reasons_are_used() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src" / "trimtab").rglob("*.py"))
    rows = PAGE.partition("## Condition reasons")[2].splitlines()
    listed = {reason for row in rows if row.count("|") == 3 for reason in re.findall(r"`(\w+)`", row.split("|")[2])}
    assert listed
    assert [reason for reason in sorted(listed) if f'"{reason}"' not in source] == []
