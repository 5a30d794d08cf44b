"""The build of a peer's suite begins in an empty module cache."""

import subprocess
import sys
from pathlib import Path

OBTAIN = Path(__file__).parents[2] / "rig" / "obtain_suites.py"
# Names the directory of a module only after its download, as go does.
GO = """#!/bin/sh
case $1 in
  mod) /bin/mkdir -p {module}/test/e2e/framework
    printf 'PollInterval = 5\\nPollTimeout = 5\\n' > {module}/test/e2e/framework/constant.go;;
  list) [ ! -d {module} ] || echo {module};;
  *) while [ "$1" != -o ]; do shift; done; echo built > "$2";;
esac
"""


def obtain(suite: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(GO.format(module=tmp_path / "module"))
    (tools / "go").chmod(0o755)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = subprocess.run(
        [sys.executable, OBTAIN, suite], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_module_that_is_not_in_the_cache_is_downloaded_before_the_build(tmp_path: Path) -> None:
    obtain("karmada", tmp_path)
    (program,) = (tmp_path / "cache").glob("trimtab/suites/karmada-*/bin/base.test")
    assert program.read_text() == "built\n"
    (constants,) = (tmp_path / "cache").glob("trimtab/suites/karmada-*/source/test/e2e/framework/constant.go")
    assert "5\n" not in constants.read_text()


def test_suite_of_kubernetes_has_all_programs_that_its_scripts_call_without_make_kube(tmp_path: Path) -> None:
    obtain("kubernetes", tmp_path)
    built = (tmp_path / "cache" / "trimtab").glob("*/*/bin/*")
    assert {(path.parents[2].name, path.name) for path in built} == {
        ("suites", "e2e.test"),
        ("suites", "kubectl"),
        ("suites", "kubectl-convert"),
    }
