"""The processes of `make mutants`: what a run imports, how it ends, and that no removal outlives its run."""

import os
import subprocess
import sys
from pathlib import Path

from mutants.mutant import PACKAGE, ROOT, Mutant
from mutants.run import PackageCopies

RUN_TWO = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from mutants.workers import TestRun, run_all

directory = Path(sys.argv[2])
runs = [TestRun((str(directory / "test_value.py"),), directory / name, directory / "bytecode") for name in ("one", "two")]
for number, result in run_all(2, lambda number, _: runs[number], jobs=1, seconds=60):
    print(number, result.code)
"""


def test_each_run_imports_the_copy_that_it_is_given(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "examined.py").write_text(f"VALUE = {value}\n")
    test = "import examined\n\ndef test_value() -> None:\n    assert examined.VALUE == 1\n"
    (tmp_path / "test_value.py").write_text(test)
    command = [sys.executable, "-c", RUN_TWO, str(ROOT / "tests"), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["0 0", "1 1"], done.stderr


def mutant(file: str, find: str) -> Mutant:
    return Mutant("A rule.", file, find, f"{find}  # removed", ("test_value.py",))


def test_a_removal_is_undone_before_the_next_one(tmp_path: Path) -> None:
    copies = PackageCopies(tmp_path, jobs=1)
    package = tmp_path / "0" / "trimtab"
    copies.run_mutant(mutant("clock.py", '"""'), 0)
    cached = tmp_path / "bytecode" / package.relative_to("/") / "clock.cpython-311.pyc"
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert "# removed" in (package / "clock.py").read_text()

    copies.run_mutant(mutant("errors.py", '"""'), 0)
    assert (package / "clock.py").read_bytes() == (PACKAGE / "clock.py").read_bytes()
    assert not cached.exists(), "the bytecode of the removal would be imported again"
    assert "# removed" in (package / "errors.py").read_text()
