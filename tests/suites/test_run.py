"""The runner selects areas by name and reports a suite that did not start."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "rig"))

from suites.run import run_areas, run_binary, select_areas, selected_suites, summary_rows
from suites.specs import SpecResult, Verdict

SUITE = SimpleNamespace(
    name="karmada", quick=("b",), focus_of=lambda area: [area], specs_of=lambda area: area, minutes_per_area=1
)


def test_parts_select_suites_and_areas() -> None:
    assert selected_suites([]) == ["karmada", "kubernetes"]
    assert selected_suites(["karmada/a"]) == ["karmada"]
    assert select_areas(SUITE, ["a", "b"], [], quick=False) == ["a", "b"]
    assert select_areas(SUITE, ["a", "b"], ["karmada/a"], quick=False) == ["a"]
    assert select_areas(SUITE, ["a", "b"], [], quick=True) == ["b"]


def test_unknown_parts_are_refused() -> None:
    with pytest.raises(SystemExit, match="no area c"):
        select_areas(SUITE, ["a"], ["karmada/c"], quick=False)
    with pytest.raises(SystemExit, match="no suite other"):
        selected_suites(["other"])


def test_area_without_a_report_has_failed(tmp_path: Path) -> None:
    (result,) = run_binary(SUITE, "a", tmp_path, ["/bin/true"], {}, "")
    assert (result.part, result.state) == ("karmada/a", "failed")


def test_specs_of_an_area_are_selected_unless_the_caller_does(tmp_path: Path) -> None:
    log = tmp_path / "suite.log"
    run_binary(SUITE, "a", tmp_path, ["/bin/echo"], {}, "")
    assert log.read_text().startswith("a --ginkgo.focus=a ")
    run_binary(SUITE, "a", tmp_path, ["/bin/echo"], {}, "mine")
    assert log.read_text().startswith("a --ginkgo.focus=mine ")


def test_areas_that_run_at_once_are_reported_in_their_order(tmp_path: Path) -> None:
    both_run = threading.Barrier(2)

    def further(directory: Path, focus: str) -> list[SpecResult]:
        both_run.wait(60)
        return [SpecResult(f"karmada/{directory.name[-1]}", focus, "passed")]

    suite = SimpleNamespace(name="karmada", further_areas={"a": further, "b": further})
    found = list(run_areas([(suite, "b"), (suite, "a")], tmp_path, "spec", 2))
    assert found == [SpecResult("karmada/b", "spec", "passed"), SpecResult("karmada/a", "spec", "passed")]
    assert (tmp_path / "karmada-a" / "results.tsv").exists()


def test_table_counts_by_part() -> None:
    verdict = Verdict([SpecResult("k/a", "x", "passed")], [SpecResult("k/b", "y", "failed")], [], [])
    assert [row.split() for row in summary_rows(verdict)][1:] == [["k/a", "1", "0", "0"], ["k/b", "0", "1", "0"]]
