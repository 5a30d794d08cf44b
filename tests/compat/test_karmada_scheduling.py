import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from compat.families import karmada_scheduling

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", karmada_scheduling.FILES)
def test_our_decisions_equal_the_recorded_ones(name: str) -> None:
    failed = [
        (case, difference) for case, ok, difference in karmada_scheduling.run(GOLDEN / f"{name}.jsonl.gz") if not ok
    ]
    assert failed == []


def cases() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "karmada-scheduling.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(200), strict=False)]


ALTERATIONS = {
    "trigger": lambda expect: expect.update(trigger="Whim"),
    "clusters": lambda expect: expect["outcome"].update(clusters=[{"name": "elsewhere", "replicas": 1}]),
    "ok": lambda expect: expect["outcome"].update(ok=not expect["outcome"]["ok"]),
    "affinityName": lambda expect: expect["outcome"].update(affinityName="another"),
    "attempts": lambda expect: expect["outcome"].update(attempts=[{"affinityName": "another"}]),
    "errorClass": lambda expect: expect["outcome"].update(errorClass="Whim"),
    "conditionStatus": lambda expect: expect["outcome"].update(conditionStatus="Unknown"),
    "conditionReason": lambda expect: expect["outcome"].update(conditionReason="Whim"),
    "retry": lambda expect: expect["outcome"].update(retry=not expect["outcome"]["retry"]),
    "clearResult": lambda expect: expect["outcome"].update(clearResult=not expect["outcome"].get("clearResult", False)),
    "error": lambda expect: expect.update(error="something else"),
}


@pytest.mark.parametrize("field", ALTERATIONS)
def test_case_with_altered_expectation_fails(field: str) -> None:
    karmada_scheduling.load()
    for case in cases():
        altered = copy.deepcopy(case)
        ALTERATIONS[field](altered["expect"])
        assert list(karmada_scheduling.compare(altered)), case["id"]


def test_difference_of_one_replica_is_reported() -> None:
    karmada_scheduling.load()
    for case in cases():
        clusters = case["expect"]["outcome"].get("clusters")
        if clusters and "stableSortAlternative" not in case["expect"]:
            clusters[0]["replicas"] += 1
            assert list(karmada_scheduling.compare(case)), case["id"]
