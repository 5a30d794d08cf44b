import gzip
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"

ALTERED = {
    "pdb": ("expect", "desiredHealthy"),
    "evict": ("expect", "code"),
    "sched": ("total",),
    "preempt": ("pdbViolations",),
    "lownodeutil": ("evicted",),
    "highnodeutil": ("evicted",),
    "topologyspread": ("evicted",),
    "deschedule": ("evicted",),
}
"""One expectation of each family; a change of it must be reported."""


def outcomes(family: str, path: Path) -> list[tuple[str, bool, str]]:
    return list(import_module(f"compat.families.k8s_{family}").run(path))


@pytest.mark.parametrize("family", ALTERED)
def test_every_recorded_case_is_decided_as_recorded(family: str) -> None:
    failed = [
        f"{case}: {difference}"
        for case, ok, difference in outcomes(family, GOLDEN / f"k8s-{family}.jsonl.gz")
        if not ok
    ]
    assert not failed


def with_altered_expectation(case: dict[str, Any], family: str) -> dict[str, Any]:
    *above, last = ALTERED[family]
    holder = case[above[0]] if above else case
    match holder.get(last):
        case int(number):
            holder[last] = number + 1
        case [_, *rest]:
            holder[last] = rest
        case {**numbers} if numbers:
            name = next(iter(numbers))
            holder[last] = numbers | {name: numbers[name] + 1}
        case _:
            holder[last] = ["default/nobody"]
    return case


@pytest.mark.parametrize("family", ALTERED)
def test_an_altered_expectation_fails(family: str, tmp_path: Path) -> None:
    with gzip.open(GOLDEN / f"k8s-{family}.jsonl.gz", "rt") as lines:
        cases = [with_altered_expectation(json.loads(line), family) for line, _ in zip(lines, range(40), strict=False)]
    path = tmp_path / f"k8s-{family}.jsonl.gz"
    with gzip.open(path, "wt") as altered:
        altered.writelines(json.dumps(case) + "\n" for case in cases)
    passed = [case for case, ok, _ in outcomes(family, path) if ok]
    assert not passed
