"""Specs are judged by their state and by the reviewed list of expected failures."""

import json
from pathlib import Path

import pytest
from suites.specs import (
    Expectation,
    SpecResult,
    judge,
    list_areas,
    read_expectations,
    read_failures_of_setup,
    read_report,
)

HERE = Path(__file__).parent
FILE = {"FileName": "example/watch_test.go"}


def spec(name: str, state: str, message: str = "", kind: str = "It") -> dict[str, object]:
    return {
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "ContainerHierarchyTexts": ["Watchers"],
        "LeafNodeLocation": FILE,
        "State": state,
        "RunTime": 2_000_000_000,
        "Failure": {"Message": message},
    }


def write_report(path: Path, *specs: dict[str, object]) -> Path:
    path.write_text(json.dumps([{"SpecReports": list(specs)}]))
    return path


def test_report_has_the_specs_that_were_selected(tmp_path: Path) -> None:
    report = write_report(
        tmp_path / "r.json",
        spec("sees", "passed"),
        spec("hears", "timedout", "too\n late"),
        spec("other", "skipped"),
        spec("gives up", "skipped", "needs a node"),
        spec("", "passed", kind="BeforeSuite"),
    )
    assert read_report(report, "s", "watch") == [
        SpecResult("s/watch", "Watchers / sees", "passed", "", 2.0),
        SpecResult("s/watch", "Watchers / hears", "failed", "too late", 2.0),
        SpecResult("s/watch", "Watchers / gives up", "skipped", "needs a node", 2.0),
    ]
    assert list_areas(report, lambda file: Path(file).stem) == {"watch_test": 4}


def test_failed_setup_is_reported(tmp_path: Path) -> None:
    report = write_report(tmp_path / "r.json", spec("", "failed", "no cluster", kind="SynchronizedBeforeSuite"))
    assert read_failures_of_setup(report) == ["no cluster"]


def test_only_listed_failures_are_expected_and_a_listed_spec_must_not_pass() -> None:
    listed = Expectation("s/a", "needs .*", "There are no containers.")
    passes, fails = SpecResult("s/a", "needs nothing", "passed"), SpecResult("s/a", "needs a container", "failed")
    elsewhere, skipped = SpecResult("s/b", "needs a container", "failed"), SpecResult("s/a", "is idle", "skipped")
    verdict = judge([passes, fails, elsewhere, skipped], [listed])
    assert verdict.passed == [passes]
    assert verdict.stale == [(passes, listed)]
    assert verdict.expected == [(fails, listed)]
    assert verdict.failed == [elsewhere, skipped]


def test_list_of_expected_failures_is_valid_and_gives_reasons(tmp_path: Path) -> None:
    read_expectations(HERE / "expected.yaml")
    entry = tmp_path / "expected.yaml"
    entry.write_text("[{part: s/a, spec: x, reason: ' '}]")
    with pytest.raises(ValueError, match="needs a part"):
        read_expectations(entry)
