#!/usr/bin/env python3
"""Builds the end-to-end suites of Karmada and Kubernetes from published Go modules into a cache."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from obtain import MODULE, MissingPrerequisite, cache_root, command_output, go_command, linker_flags, log_line

KARMADA = "github.com/karmada-io/karmada"
KUBERNETES = "k8s.io/kubernetes"
POLL_INTERVAL, POLL_TIMEOUT = "500 * time.Millisecond", "100 * time.Second"
"""How often the suites look, and for how long; long enough for a cron schedule of one minute."""


class Program(NamedTuple):
    name: str
    package: str
    is_test: bool = False
    reports_version: bool = False


class Suite(NamedTuple):
    """A suite of a peer, and the programs that it runs."""

    name: str
    module: Path
    """The directory whose go.mod pins the release."""
    root: str
    """The Go module of the peer."""
    programs: tuple[Program, ...]
    poll_constants: str = ""
    """The file in the peer's module that holds the poll interval and timeout as constants, if they are not flags."""

    @property
    def release(self) -> str:
        found = re.search(
            rf"^\s*(?:require )?{re.escape(self.root)} (v\S+)", (self.module / "go.mod").read_text(), re.MULTILINE
        )
        if found is None:
            raise MissingPrerequisite(f"{self.module / 'go.mod'} does not require {self.root}")
        return found[1]

    @property
    def directory(self) -> Path:
        return cache_root() / "suites" / f"{self.name}-{self.release.removeprefix('v')}" / "bin"


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "karmada",
            MODULE / "karmada",
            KARMADA,
            (
                Program("base.test", f"{KARMADA}/test/e2e/suites/base", is_test=True),
                Program("karmadactl", f"{KARMADA}/cmd/karmadactl"),
                Program("interpreter-webhook-example", f"{KARMADA}/examples/customresourceinterpreter/webhook"),
            ),
            poll_constants="test/e2e/framework/constant.go",
        ),
        Suite(
            "kubernetes",
            MODULE,
            KUBERNETES,
            (
                Program("e2e.test", f"{KUBERNETES}/test/e2e", is_test=True),
                Program("kubectl", f"{KUBERNETES}/cmd/kubectl", reports_version=True),
                Program("kubectl-convert", f"{KUBERNETES}/cmd/kubectl-convert"),
            ),
        ),
    )
}


def downloaded_module(go: str, suite: Suite) -> Path:
    """The directory with the source of the peer's module; `go list` names none before the download."""
    for line in command_output([go, "mod", "download", suite.root], suite.module):
        log_line(f"  {line}")
    *_, directory = command_output([go, "list", "-m", "-f", "{{.Dir}}", suite.root], suite.module)
    return Path(directory)


def shorten_polling(go: str, suite: Suite, scratch: Path) -> Path:
    """A go.mod for a copy of the peer's module that polls more often and gives up earlier than on a real fleet."""
    directory = downloaded_module(go, suite)
    copy = suite.directory.parent / "source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    constants = copy / suite.poll_constants
    text, count = re.subn(r"(PollInterval\s*=\s*).*", rf"\g<1>{POLL_INTERVAL}", constants.read_text())
    text, further = re.subn(r"(PollTimeout\s*=\s*).*", rf"\g<1>{POLL_TIMEOUT}", text)
    if (count, further) != (1, 1):
        raise MissingPrerequisite(f"{suite.poll_constants} has no constants PollInterval and PollTimeout")
    constants.write_text(text)
    pinned = (suite.module / "go.mod").read_text()
    (scratch / "go.mod").write_text(f"{pinned}\nreplace {suite.root} => {copy}\n")
    shutil.copyfile(suite.module / "go.sum", scratch / "go.sum")
    return scratch / "go.mod"


def build(go: str, suite: Suite, program: Program) -> None:
    log_line(f"Building {program.name} from {program.package} (takes some minutes) ...")
    started = time.monotonic()
    suite.directory.mkdir(parents=True, exist_ok=True)
    partial = suite.directory / f".{program.name}.partial"
    with tempfile.TemporaryDirectory() as scratch:
        # The code of the peers is not ours to check, and `go vet` of a suite and its dependencies takes as long as the build.
        subcommand = ("test", "-c", "-vet=off") if program.is_test else ("build",)
        flags = linker_flags(suite.release) if program.reports_version else "-s -w"
        command = [go, *subcommand, "-trimpath", "-ldflags", flags]
        if suite.poll_constants:  # for every program, so that they share compiled packages
            command += ["-modfile", str(shorten_polling(go, suite, Path(scratch)))]
        for line in command_output([*command, "-o", str(partial), program.package], suite.module):
            log_line(f"  {line}")
    partial.replace(suite.directory / program.name)
    log_line(f"  done in {time.monotonic() - started:.0f} s")


def missing_programs(suite: Suite) -> list[Program]:
    return [program for program in suite.programs if not (suite.directory / program.name).exists()]


def obtain(suites: Iterable[Suite]) -> None:
    for suite in suites:
        log_line(f"{suite.name} {suite.release} in {suite.directory}")
        for program in missing_programs(suite):
            build(go_command(), suite, program)


def check(suites: Iterable[Suite]) -> None:
    for suite in suites:
        if missing := missing_programs(suite):
            names = " and ".join(program.name for program in missing)
            raise MissingPrerequisite(f"{names} of the suite {suite.name} not built: run make suites")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{' or '.join(SUITES)}; default: both")
    parser.add_argument("--check", action="store_true", help="build nothing; fail if something is missing")
    arguments = parser.parse_args()
    if unknown := set(arguments.suites) - set(SUITES):
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    selected = [SUITES[name] for name in arguments.suites or SUITES]
    try:
        (check if arguments.check else obtain)(selected)
    except (MissingPrerequisite, subprocess.SubprocessError) as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
