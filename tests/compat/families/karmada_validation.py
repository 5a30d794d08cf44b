"""Placements as Karmada's webhooks default and validate them (format: KARMADA-GOLDEN, validation lines)."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trimtab.api.admission.placement import check_placement, fill_placement
from trimtab.api.value import Raw


def run(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Every case of a file: its id, whether we agree, and the difference if not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            case = json.loads(line)
            difference = _difference(case)
            yield case["id"], not difference, difference


def _given_placement(case: Raw) -> Raw:
    """The placement as given: the recording drops empty lists, and tags mark their places."""
    placement: Raw = case["placement"]
    if "coexist-empty" in case["tags"]:
        return {"clusterAffinities": [], **placement}
    if "overflow" in case["tags"]:
        terms = [{"overflowAffinities": [], **term} for term in placement.get("clusterAffinities", [])]
        return {**placement, "clusterAffinities": terms}
    return placement


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items() if item not in ([], {}, None)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _difference(case: Raw) -> str:
    filled = fill_placement(_given_placement(case))
    if _without_empty(filled) != _without_empty(case["expect"]["defaulted"]):
        return f"defaulted to {filled}, expected {case['expect']['defaulted']}"
    found = list(check_placement(filled, "spec.placement"))
    wanted = case["expect"]["errors"]
    same = len(found) == len(wanted) and all(
        (cause.reason, cause.field) == (error["Type"], error["Field"])
        and cause.message.endswith(f": {error['Detail']}")
        for cause, error in zip(found, wanted, strict=True)
    )
    return "" if same else f"errors {found}, expected {wanted}"
