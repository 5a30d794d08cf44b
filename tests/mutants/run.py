"""`make mutants`: removes every safety rule in turn and demands that a test beside it fails.

The rules are listed in `rules/`. Each removal is applied to a temporary copy of the package, never to the tree itself, and
only the tests that the entry names are run, in a process of their own (`workers.py`). The run fails when no test fails (the
mutant survives), when the code to find is not there any more (a stale entry), or when one of the named tests fails without
any removal. The run without removals comes first; it also tells which tests take longest, and those come first afterwards.

    python tests/mutants/run.py            all rules
    python tests/mutants/run.py WORD ...   rules whose sentence or file contains one of the words
    python tests/mutants/run.py --jobs 4   so many at a time (default 2)
"""

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.mutant import PACKAGE, Mutant
from mutants.rules import MUTANTS
from mutants.workers import TESTS_FAILED, TestResult, TestRun, import_dependencies, run_all

TEST_SECONDS = 600.0
"""Real seconds that the tests of one mutant may take; a removal that makes them endless is noticed, too."""


class Outcome(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    killed: bool
    details: str = ""


class PackageCopies:
    """A copy of the package for each job, in which one removal at a time is applied."""

    def __init__(self, directory: Path, jobs: int) -> None:
        self._bytecode = directory / "bytecode"
        self._parents = [directory / str(job) for job in range(jobs)]
        self._mutated: dict[int, Path] = {}
        for parent in self._parents:
            shutil.copytree(PACKAGE, parent / "trimtab", ignore=shutil.ignore_patterns("__pycache__"))

    def run_unchanged(self, tests: tuple[str, ...], job: int) -> TestRun:
        return TestRun(tests, self._parents[job], self._bytecode)

    def run_mutant(self, mutant: Mutant, job: int) -> TestRun:
        """Undo the removal that the job had, and apply this one."""
        package = self._parents[job] / "trimtab"
        if (before := self._mutated.get(job)) is not None:
            shutil.copy2(PACKAGE / before, package / before)
            self._forget_bytecode(package / before)
        self._mutated[job] = Path(mutant.file)
        (package / mutant.file).write_text(mutant.mutated_source())
        self._forget_bytecode(package / mutant.file)
        return self.run_unchanged(mutant.tests, job)

    def _forget_bytecode(self, source: Path) -> None:
        """Bytecode is found by time and size of its source, and both may be those of another removal."""
        for cached in (self._bytecode / source.parent.relative_to("/")).glob(f"{source.stem}.*.pyc"):
            cached.unlink()


def run_without_removals(
    mutants: Sequence[Mutant], copies: PackageCopies, jobs: int
) -> tuple[Mapping[str, float], str]:
    """Run all named tests once: how long the tests of each file take, and the output when one fails."""
    named: dict[str, set[str]] = defaultdict(set)
    for mutant in mutants:
        for test in mutant.tests:
            named[test.partition("::")[0]].add(test)
    chosen = {file: (file,) if file in tests else tuple(sorted(tests)) for file, tests in named.items()}
    files, seconds = list(chosen), {}

    def prepare(number: int, job: int) -> TestRun:
        return copies.run_unchanged(chosen[files[number]], job)

    for number, result in run_all(len(files), prepare, jobs, TEST_SECONDS):
        if result.code:
            return {}, result.output
        seconds[files[number]] = result.seconds
    return seconds, ""


def remove_each(
    mutants: Sequence[Mutant], copies: PackageCopies, seconds: Mapping[str, float], jobs: int
) -> Iterator[Outcome]:
    """Apply each removal and run its tests, those with the longest tests first."""
    longest_first = sorted(mutants, key=lambda mutant: -sum(seconds[test.partition("::")[0]] for test in mutant.tests))

    def prepare(number: int, job: int) -> TestRun:
        return copies.run_mutant(longest_first[number], job)

    for number, result in run_all(len(longest_first), prepare, jobs, TEST_SECONDS):
        yield outcome_of(longest_first[number], result)


def outcome_of(mutant: Mutant, result: TestResult) -> Outcome:
    if result.code == TESTS_FAILED:
        return Outcome(mutant, killed=True)
    unclear = f"pytest exited with {result.code}\n{result.output}"
    return Outcome(mutant, killed=False, details=unclear if result.code else "no test fails")


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
    if stale := [Outcome(mutant, killed=False, details=problem) for mutant in chosen if (problem := mutant.problem())]:
        for outcome in stale:
            print_outcome(outcome)
        return 1
    import_dependencies()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies = PackageCopies(Path(directory), given.jobs)
        seconds, output = run_without_removals(chosen, copies, given.jobs)
        if output:
            print(f"tests fail without any removal:\n{output}")
            return 1
        for outcome in remove_each(chosen, copies, seconds, given.jobs):
            survivors += not outcome.killed
            print_outcome(outcome)
    print(f"{len(chosen)} rules removed, {survivors} removals not noticed")
    return int(survivors > 0)


def print_outcome(outcome: Outcome) -> None:
    print(f"{'killed  ' if outcome.killed else 'SURVIVES'} {outcome.mutant.file}: {outcome.mutant.rule}", flush=True)
    if outcome.details:
        print(f"         {outcome.details}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
