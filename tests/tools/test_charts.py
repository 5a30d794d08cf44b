"""Values, schemas and templates of the charts agree."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trimtab.cli.commands.controllers import command as controllers

CHARTS = Path(__file__).parents[2] / "charts"
NAMES = ("trimtab", "trimtab-crds", "trimtab-agent")
USE = re.compile(r"\.Values((?:\.[a-zA-Z]+)+)")


def leaf_paths(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    properties = schema.get("properties")
    if not properties:
        yield path
    for name, inner in (properties or {}).items():
        yield from leaf_paths(inner, (*path, name))


def lookup(values: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def load(name: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    folder = CHARTS / name
    values = yaml.safe_load((folder / "values.yaml").read_text())
    schema = json.loads((folder / "values.schema.json").read_text())
    templates = [path for path in (folder / "templates").rglob("*") if path.is_file() and name != "trimtab-crds"]
    return values, schema, "\n".join(path.read_text() for path in templates)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_has_a_schema_and_a_default(name: str) -> None:
    values, schema, _ = load(name)
    declared = set(leaf_paths(schema)) - {("global",), ("probes", "liveness", "initialDelaySeconds")}
    declared -= {("probes", "readiness", "initialDelaySeconds")}
    declared -= {
        path for path in declared if path[0] == "settings"
    }  # a setting that is not given has the default of the controllers
    assert [path for path in declared if not lookup(values, path)] == []
    assert set(values) <= set(schema["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_templates_use_only_declared_values(name: str) -> None:
    values, _, templates = load(name)
    used = {tuple(found.strip(".").split(".")) for found in USE.findall(templates)}
    assert [path for path in used if not lookup(values, path)] == []


@pytest.mark.parametrize("name", ["trimtab", "trimtab-agent"])
def test_pods_fulfil_the_restricted_standard(name: str) -> None:
    templates = load(name)[2]
    for line in (
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "drop: [ALL]",
    ):
        assert line in templates
    assert "type: RuntimeDefault" in templates


def test_arguments_of_the_deployment_exist() -> None:
    options = {text for option in controllers.params for text in option.opts}
    text = (CHARTS / "trimtab" / "templates" / "deployment.yaml").read_text()
    used = set(re.findall(r"- (--[a-z-]+)", text))
    assert used
    assert used - options == set()
