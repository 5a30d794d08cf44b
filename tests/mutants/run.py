"""`make mutants`: removes every safety rule in turn and demands that a test beside it fails.

The rules are listed in `rules/`. Each removal is applied to a temporary copy of the package, never to the tree itself, and
only the tests that the entry names are run. The run fails when no test fails (the mutant survives), when the code to find
is not there any more (a stale entry), or when one of the named tests fails without any removal.

    python tests/mutants/run.py            all rules
    python tests/mutants/run.py WORD ...   rules whose sentence or file contains one of the words
    python tests/mutants/run.py --jobs 4   so many at a time (default 2)
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.mutant import PACKAGE, ROOT, Mutant
from mutants.rules import MUTANTS

TEST_SECONDS = 600.0
"""Real seconds that the tests of one mutant may take; a removal that makes them endless is noticed, too."""
TESTS_FAILED = 1
"""The exit code of pytest when tests ran and failed; any other code is no proof."""


class Outcome(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    killed: bool
    details: str = ""


def run_tests(tests: Sequence[str], package_parent: Path | None, seconds: float = TEST_SECONDS) -> tuple[int, str]:
    """The exit code and the output of pytest, with `trimtab` imported from another directory if one is given."""
    environment = dict(os.environ)
    if package_parent is not None:
        environment["PYTHONPATH"] = str(package_parent)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    paths = [str(ROOT / "tests" / test) for test in tests]
    try:
        done = subprocess.run(
            [*command, *paths],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, "the tests did not end in time"
    return done.returncode, done.stdout[-2000:] + done.stderr[-2000:]


def try_mutant(mutant: Mutant) -> Outcome:
    if problem := mutant.problem():
        return Outcome(mutant, killed=False, details=problem)
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory) / "trimtab"
        shutil.copytree(PACKAGE, copy)  # with the bytecode, which stays valid because the copies keep their times
        (copy / mutant.file).write_text(mutant.mutated_source())
        code, output = run_tests(mutant.tests, Path(directory))
    if code == TESTS_FAILED:
        return Outcome(mutant, killed=True)
    return Outcome(
        mutant, killed=False, details="no test fails" if code == 0 else f"pytest exited with {code}\n{output}"
    )


def run_without_removals(mutants: Sequence[Mutant]) -> str:
    """Run all named tests once; returns the output when one fails."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    files = {test for test in tests if "::" not in test}
    chosen = [test for test in tests if test.partition("::")[0] not in files or test in files]
    code, output = run_tests(chosen, None, seconds=TEST_SECONDS * len(chosen))
    return output if code else ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    chosen = [
        mutant
        for mutant in MUTANTS
        if not given.words or any(word in mutant.rule or word in mutant.file for word in given.words)
    ]
    if not chosen:
        print("no rule matches")
        return 1
    if output := run_without_removals(chosen):
        print(f"tests fail without any removal:\n{output}")
        return 1
    survivors = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(try_mutant, chosen):
            survivors += not outcome.killed
            print(f"{'killed  ' if outcome.killed else 'SURVIVES'} {outcome.mutant.file}: {outcome.mutant.rule}")
            if outcome.details:
                print(f"         {outcome.details}")
            sys.stdout.flush()
    print(f"{len(chosen)} rules removed, {survivors} removals not noticed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
