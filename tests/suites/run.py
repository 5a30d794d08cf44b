"""`make suites`: runs the end-to-end suites of Karmada and Kubernetes against Trimtab, area by area."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
OBTAIN = HERE.parents[1] / "rig" / "obtain_suites.py"
sys.path[:0] = [str(HERE.parent), str(OBTAIN.parent)]

from suites.karmada import KarmadaSuite  # noqa: E402 - the tests directory has to be importable first
from suites.kubernetes import KubernetesSuite  # noqa: E402
from suites.peer_suite import PeerSuite, run_to_end  # noqa: E402
from suites.specs import (  # noqa: E402
    FAILED,
    Expectation,
    SpecResult,
    Verdict,
    judge,
    list_areas,
    read_expectations,
    read_failures_of_setup,
    read_report,
)

SUITES: dict[str, type[PeerSuite]] = {"karmada": KarmadaSuite, "kubernetes": KubernetesSuite}
DRY_RUN_SECONDS = 120


def areas_of(suite: PeerSuite, directory: Path) -> dict[str, int]:
    """The areas of a suite and their number of specs, by a dry run."""
    report = directory / f"{suite.name}-specs.json"
    command = [str(suite.binary), "--ginkgo.dry-run", f"--ginkgo.json-report={report}"]
    run_to_end(command, dict(os.environ), directory / f"{suite.name}-specs.log", DRY_RUN_SECONDS)
    counts = list_areas(report, suite.area_of)
    return {area: counts[area] for area in sorted(counts) if area} | dict.fromkeys(suite.further_areas, 0)


def select_areas(suite: PeerSuite, known: Iterable[str], parts: list[str], *, quick: bool) -> list[str]:
    """The areas of this suite that the parts name; a part is a suite, or a suite and an area."""
    if quick:
        return list(suite.quick)
    areas = list(known)
    if not parts or suite.name in parts:
        return areas
    wanted = [part.partition("/")[2] for part in parts if part.startswith(f"{suite.name}/")]
    if unknown := sorted(set(wanted) - set(areas)):
        raise SystemExit(f"{suite.name} has no area {', '.join(unknown)}; it has {', '.join(areas)}")
    return wanted


def run_areas(areas: list[tuple[PeerSuite, str]], directory: Path, focus: str, jobs: int) -> Iterator[SpecResult]:
    """Run areas, so many at a time, and yield their results in the order in which they were given."""
    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(lambda area: run_area(*area, directory, focus), areas):
            yield from results


def run_area(suite: PeerSuite, area: str, directory: Path, focus: str) -> list[SpecResult]:
    """Run an area against a new fleet, so that what a failed spec leaves behind does not fail others."""
    begun = time.monotonic()
    own = directory / f"{suite.name}-{area.replace('/', '-')}"
    shutil.rmtree(own, ignore_errors=True)  # objects of an earlier run must not be there
    own.mkdir(parents=True)
    if area in suite.further_areas:
        results = suite.further_areas[area](own, focus)
    else:
        with suite.start(own, area) as invocation:
            results = run_binary(suite, area, own, invocation.command, invocation.environment, focus)
    write_table(results, own / "results.tsv")
    states = Counter(result.state for result in results)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    print(f"{suite.name}/{area}: {counted} ({time.monotonic() - begun:.0f} s)", flush=True)
    return results


def run_binary(
    suite: PeerSuite, area: str, directory: Path, command: list[str], environment: dict[str, str], focus: str
) -> list[SpecResult]:
    report, log = directory / "report.json", directory / "suite.log"
    selection = [*suite.focus_of(area), f"--ginkgo.focus={focus or suite.specs_of(area)}"]
    minutes = suite.minutes_per_area
    limits = [f"--ginkgo.timeout={minutes}m", "--ginkgo.no-color", f"--ginkgo.json-report={report}"]
    run_to_end([*command, *selection, *limits], environment, log, minutes * 60 + 120)
    if not report.exists():
        return [SpecResult(f"{suite.name}/{area}", "(all specs)", FAILED, f"no report was written; see {log}")]
    if faults := read_failures_of_setup(report):
        return [SpecResult(f"{suite.name}/{area}", "(setup of the suite)", FAILED, faults[0])]
    return read_report(report, suite.name, area)


def write_table(results: list[SpecResult], path: Path) -> None:
    rows = [f"{one.state}\t{one.part}\t{one.name}\t{one.message[:400]}\n" for one in results]
    path.write_text("state\tpart\tspec\tfirst message\n" + "".join(rows))


def print_verdict(verdict: Verdict) -> None:
    for result, expectation in verdict.expected:
        print(f"expected to fail: {result.part}: {result.name}\n    {expectation.reason}")
    for result, _ in verdict.stale:
        print(f"passes although a failure is expected; remove the entry: {result.part}: {result.name}")
    for result in verdict.failed:
        print(f"{result.state}: {result.part}: {result.name}\n    {result.message[:300]}")
    print("\n".join(summary_rows(verdict)))
    print(f"{len(verdict.passed)} passed, {len(verdict.failed)} failed, {len(verdict.expected)} expected to fail")


def summary_rows(verdict: Verdict) -> Iterator[str]:
    columns = (verdict.passed, verdict.failed, [result for result, _ in verdict.expected])
    counts = [Counter(result.part for result in column) for column in columns]
    yield f"{'part':<44}{'passed':>8}{'failed':>8}{'expected':>10}"
    for part in sorted({part for count in counts for part in count}):
        passed, failed, expected = (count[part] for count in counts)
        yield f"{part:<44}{passed:>8}{failed:>8}{expected:>10}"


def selected_suites(parts: list[str]) -> list[str]:
    """The suites that the parts name; all without parts."""
    named = {part.partition("/")[0] for part in parts}
    if unknown := sorted(named - set(SUITES)):
        raise SystemExit(f"there is no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    return [name for name in SUITES if not parts or name in named]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="a suite, or suite/area; default: everything")
    parser.add_argument("--quick", action="store_true", help="only the areas that run with every change")
    parser.add_argument("--focus", default="", help="only specs whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="areas that run at a time; default: 1")
    parser.add_argument("--list", action="store_true", help="print the areas and their number of specs")
    parser.add_argument("--no-build", action="store_true", help="use the binaries in the cache as they are")
    parser.add_argument("--directory", type=Path, help="where to keep logs, reports and results.tsv")
    arguments = parser.parse_args()
    names = selected_suites(arguments.parts)
    if not arguments.no_build and subprocess.run([sys.executable, OBTAIN, *names], check=False).returncode:
        return 1
    with tempfile.TemporaryDirectory(prefix="trimtab-suites-") as scratch:
        directory = (arguments.directory or Path(scratch)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        selected: list[tuple[int, PeerSuite, str]] = []
        for name in names:
            suite = SUITES[name]()
            known = areas_of(suite, directory)
            if arguments.list:
                print("\n".join(f"{name}/{area}  {count}" for area, count in known.items()))
                continue
            areas = select_areas(suite, known, arguments.parts, quick=arguments.quick)
            selected += [(known.get(area, 0), suite, area) for area in areas]
        if arguments.jobs > 1:  # those with most specs first: one long area must not be the last
            selected.sort(key=lambda one: -(one[0] or sys.maxsize))  # of further areas the number is not known
        chosen = [(suite, area) for _, suite, area in selected]
        results = list(run_areas(chosen, directory, arguments.focus, arguments.jobs))
        write_table(results, directory / "results.tsv")
    if arguments.list:
        return 0
    expectations: list[Expectation] = read_expectations(HERE / "expected.yaml")
    verdict = judge(results, expectations)
    print_verdict(verdict)
    return 1 if verdict.failed or verdict.stale or not results else 0


if __name__ == "__main__":
    sys.exit(main())
