"""The results of specs: read from reports of ginkgo, and judged by the list of expected failures."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class SpecResult(NamedTuple):
    part: str
    """Suite and area, such as `karmada/failover`."""
    name: str
    state: str
    message: str = ""
    seconds: float = 0.0


class Expectation(NamedTuple):
    """Specs that cannot pass here, and the reason, which lies in the environment."""

    part: str
    spec: str
    """A regular expression for the whole name."""
    reason: str

    def matches(self, result: SpecResult) -> bool:
        return self.part == result.part and re.fullmatch(self.spec, result.name, re.DOTALL) is not None


class Verdict(NamedTuple):
    passed: list[SpecResult]
    failed: list[SpecResult]
    expected: list[tuple[SpecResult, Expectation]]
    stale: list[tuple[SpecResult, Expectation]]
    """Specs that pass although a failure is expected: their entry must be removed."""


def read_expectations(path: Path) -> list[Expectation]:
    """The reviewed list; raises ValueError for an entry without a reason."""
    found = []
    for entry in yaml.safe_load(path.read_text()) or []:
        expectation = Expectation(**entry)
        if not expectation.reason.strip() or "/" not in expectation.part:
            raise ValueError(f"{path}: {entry} needs a part (suite/area) and a reason")
        re.compile(expectation.spec)
        found.append(expectation)
    return found


def judge(results: Iterable[SpecResult], expectations: Iterable[Expectation]) -> Verdict:
    """A spec that was skipped did not pass, so it has to be expected as well."""
    verdict = Verdict([], [], [], [])
    listed = list(expectations)
    for result in results:
        expectation = next((one for one in listed if one.matches(result)), None)
        if result.state == PASSED:
            verdict.passed.append(result)
            if expectation is not None:
                verdict.stale.append((result, expectation))
        elif expectation is not None:
            verdict.expected.append((result, expectation))
        else:
            verdict.failed.append(result)
    return verdict


def read_report(path: Path, suite: str, area: str) -> list[SpecResult]:
    """The specs that ran; those that were not selected are left out."""
    return [
        SpecResult(f"{suite}/{area}", spec_name(spec), state_of(spec), message_of(spec), spec.get("RunTime", 0) / 1e9)
        for spec in _specs(path)
        if spec["State"] != "skipped" or message_of(spec)
    ]


def read_failures_of_setup(path: Path) -> list[str]:
    """The messages of suite-level nodes that failed: without them no spec ran."""
    return [
        message_of(node)
        for suite in json.loads(path.read_text())
        for node in suite["SpecReports"] or []
        if node["LeafNodeType"] != "It" and state_of(node) == FAILED
    ]


def list_areas(path: Path, area_of: Any) -> dict[str, int]:
    """How many specs each area has, from the report of a dry run."""
    counts: dict[str, int] = {}
    for spec in _specs(path):
        area = area_of(spec["LeafNodeLocation"]["FileName"])
        counts[area] = counts.get(area, 0) + 1
    return counts


def _specs(path: Path) -> Iterator[dict[str, Any]]:
    for suite in json.loads(path.read_text()):
        yield from (spec for spec in suite["SpecReports"] or [] if spec["LeafNodeType"] == "It")


def spec_name(spec: dict[str, Any]) -> str:
    return " / ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])


def state_of(spec: dict[str, Any]) -> str:
    state = spec["State"]
    if state == "passed":
        return PASSED
    return SKIPPED if state in ("skipped", "pending") else FAILED


def message_of(spec: dict[str, Any]) -> str:
    return " ".join((spec.get("Failure") or {}).get("Message", "").split())
