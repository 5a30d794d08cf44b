"""The runner of Kubernetes' scripts for kubectl."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "rig"))

from suites.kubectl_commands import functions_of, link_module, read_results


def test_functions_are_found_in_their_order(tmp_path: Path) -> None:
    script = tmp_path / "test" / "cmd" / "legacy-script.sh"
    script.parent.mkdir(parents=True)
    script.write_text("  record_command run_b_tests\n# record_command run_c\n    record_command run_a_tests\n")
    assert functions_of(tmp_path) == ["run_b_tests", "run_a_tests"]


def test_function_that_was_not_reached_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "functions.tsv"
    path.write_text("run_a\t0\t3\nrun_b\t1\t2\n")
    (tmp_path / "run_b.log").write_text("\x1b[31mFAIL!\n!!! Call tree:\nexpected x\n")
    states = [(one.name, one.state, one.message) for one in read_results(["run_a", "run_b", "run_c"], path)]
    assert states == [
        ("run_a", "passed", ""),
        ("run_b", "failed", "FAIL! expected x"),
        ("run_c", "failed", "the scripts ended before this function"),
    ]


def test_fixtures_are_copied_and_plugins_are_executable(tmp_path: Path) -> None:
    module = tmp_path / "module"
    plugin = module / "test" / "fixtures" / "kubectl-foo"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("#!/bin/sh\n")
    (module / "hack").mkdir()
    link_module(module, tmp_path / "root")
    assert (tmp_path / "root" / "hack").is_symlink()
    assert (tmp_path / "root" / "test" / "fixtures" / "kubectl-foo").stat().st_mode & 0o111
