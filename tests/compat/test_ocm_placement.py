import copy
from pathlib import Path
from typing import Any

import pytest
from compat.families import ocm_placement
from compat.k8s_cases import cases

from trimtab import plugins

GOLDEN = Path(__file__).parent / "golden" / "ocm-placement.jsonl.gz"


def test_our_reconciles_equal_the_recorded_ones() -> None:
    assert [(case, difference) for case, ok, difference in ocm_placement.run(GOLDEN) if not ok] == []


def condition(out: dict[str, Any]) -> dict[str, Any]:
    return out["placementStatus"]["conditions"][0]


ALTERATIONS = {
    "selected": lambda out: out.update(selected=["elsewhere", *out["selected"]]),
    "totals": lambda out: out["totals"].update(elsewhere=100),
    "decisions": lambda out: out["placementDecisions"].append({"name": "x", "labels": {}, "clusters": []}),
    "labels": lambda out: out["placementDecisions"][0]["labels"].update(more="yes"),
    "number": lambda out: out["placementStatus"].update(numberOfSelectedClusters=-1),
    "groups": lambda out: out["placementStatus"].update(decisionGroups=[{"decisionGroupIndex": 9}]),
    "reason": lambda out: condition(out).update(reason="Whim"),
    "message": lambda out: condition(out).update(message="on a whim"),
    "status": lambda out: out.update(status={"code": "Error", "plugin": "", "message": "on a whim"}),
    "timer": lambda out: out.update(requeueAt="2020-01-01T00:00:00Z"),
    "writes": lambda out: out["writes"].append("delete placements p"),
}


@pytest.mark.parametrize("what", ALTERATIONS)
def test_case_with_altered_expectation_fails(what: str) -> None:
    plugins.load()
    looked_at = 0
    for case in list(cases(GOLDEN))[::7]:
        out = copy.deepcopy(case["out"])
        if {"skipped", "listError", "panic"} & out.keys() or not out["placementDecisions"]:
            continue
        out.pop("statusAlternatives", None)
        ALTERATIONS[what](out)
        looked_at += 1
        assert list(ocm_placement.case_differences({"in": case["in"], "out": out})), case["in"]["id"]
    assert looked_at > 50
