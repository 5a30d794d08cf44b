#!/usr/bin/env python3
"""Builds kube-apiserver, its controllers, its scheduler, etcd and kubectl from published Go modules into a cache.

The environment variable KUBE selects another minor version than the default one: KUBE=1.31.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MODULE = Path(__file__).resolve().parent
PINNED = re.compile(r"^\s*(\S+) (v\S+) // indirect$", re.MULTILINE)
ETCD = "go.etcd.io/etcd/server/v3"
KUBERNETES = "k8s.io/kubernetes"
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
SECONDS_BETWEEN_REPORTS = 15


class MissingPrerequisite(Exception):
    """A prerequisite of the rig is missing."""


class Binary(NamedTuple):
    name: str
    package: str
    version_command: tuple[str, ...]
    expected_output: str


def module_directory(minor: str) -> Path:
    """The directory of the go.mod for a minor version such as 1.31; empty means the default one."""
    if not minor or f"v{minor}." in pinned_versions(MODULE)[KUBERNETES]:
        return MODULE
    directory = MODULE / f"kube-{minor}"
    if not (directory / "go.mod").exists():
        known = sorted(path.parent.name.removeprefix("kube-") for path in MODULE.glob("kube-*/go.mod"))
        raise MissingPrerequisite(
            f"KUBE={minor}: the rig has no such version; besides the default it has {', '.join(known)}"
        )
    return directory


def pinned_versions(module: Path = MODULE) -> dict[str, str]:
    """The module versions that go.mod pins; no other file names versions."""
    return dict(PINNED.findall((module / "go.mod").read_text()))


def binaries(kubernetes: str) -> tuple[Binary, ...]:
    def command(name: str, *version_command: str) -> Binary:
        return Binary(name, f"{KUBERNETES}/cmd/{name}", version_command, kubernetes)

    return (
        # The distribution's etcd may replace the pinned one, so any 3.x release is accepted.
        Binary("etcd", ETCD, ("--version",), "etcd Version: 3."),
        command("kube-apiserver", "--version"),
        command("kube-controller-manager", "--version"),
        command("kube-scheduler", "--version"),
        command("kubectl", "version", "--client"),
    )


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"


def cache_directory(kubernetes: str) -> Path:
    return cache_root() / f"kube-{kubernetes.removeprefix('v')}" / "bin"


def why_unusable(binary: Binary, directory: Path) -> str | None:
    path = directory / binary.name
    if not path.exists():
        return "is missing"
    try:
        completed = subprocess.run(
            [path, *binary.version_command], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"does not run: {fault}"
    if completed.returncode != 0:
        return f"exits with {completed.returncode} when run for its version"
    if binary.expected_output not in completed.stdout:
        return f"prints {completed.stdout.strip()!r}, not {binary.expected_output}"
    return None


def log_line(sentence: str) -> None:
    print(sentence, flush=True)


def go_environment() -> dict[str, str]:
    # Without cgo no C compiler is needed; an outer Go workspace must not change the build.
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def go_command() -> str:
    found = shutil.which("go")
    if found is None:
        raise MissingPrerequisite(
            "Go is not installed: the Kubernetes binaries are built from source. Install Go 1.24 or newer."
        )
    return found


def command_output(command: list[str], module: Path) -> Iterator[str]:
    """Yields the output lines of a go command; raises with its output when it fails."""
    kept: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=go_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as work:
        for line in work.stdout or ():
            kept.append(line.rstrip())
            yield kept[-1]
    if work.returncode != 0:
        raise MissingPrerequisite("\n".join(["Failed: " + " ".join(command), *(f"  {line}" for line in kept[-12:])]))


def fetch(go: str, binary: Binary, module: Path) -> None:
    fetched, reported = 0, time.monotonic()
    try:
        for line in command_output([go, "list", "-deps", "-f", "{{.ImportPath}}", binary.package], module):
            fetched += line.startswith("go: downloading")
            if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
                reported = time.monotonic()
                log_line(f"  {fetched} modules fetched so far")
    except MissingPrerequisite as fault:
        proxy = subprocess.run([go, "env", "GOPROXY"], capture_output=True, text=True, check=False).stdout.strip()
        raise MissingPrerequisite(
            f"The modules of {binary.name} could not be loaded (registry: GOPROXY={proxy}).\n{fault}"
        ) from fault
    log_line(f"  all modules are available, {fetched} were fetched now")


def linker_flags(kubernetes: str) -> str:
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    facts = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitCommit": "unknown"}
    stamps = [f"-X {package}.{fact}={value}" for package in VERSION_PACKAGES for fact, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])


def build(go: str, binary: Binary, directory: Path, flags: str, module: Path) -> None:
    log_line(f"Building {binary.name} from {binary.package} ...")
    fetch(go, binary, module)
    started = reported = time.monotonic()
    partial = directory / f".{binary.name}.partial"
    command = [go, "build", "-v", "-trimpath", "-ldflags", flags, "-o", str(partial), binary.package]
    for compiled, package in enumerate(command_output(command, module), 1):
        if time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            log_line(f"  {reported - started:4.0f} s, {compiled} packages compiled, now {package}")
    partial.replace(directory / binary.name)  # only a finished binary gets the final name
    log_line(f"  done in {time.monotonic() - started:.0f} s")


def unpack_distribution_etcd(directory: Path) -> None:
    log_line("Using etcd of the distribution's package etcd-server ...")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            subprocess.run(["apt-get", "download", "etcd-server"], cwd=scratch, check=True)
            (package,) = Path(scratch).glob("etcd-server_*.deb")
            subprocess.run(["dpkg", "-x", str(package), scratch], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as fault:
            raise MissingPrerequisite(f"The distribution's package etcd-server is not available: {fault}") from fault
        shutil.copy2(Path(scratch) / "usr" / "bin" / "etcd", directory / ".etcd.partial")
    (directory / ".etcd.partial").replace(directory / "etcd")


def obtain_one(go: str, binary: Binary, directory: Path, flags: str, module: Path) -> None:
    try:
        build(go, binary, directory, flags, module)
    except MissingPrerequisite as fault:
        if binary.package != ETCD:
            raise
        print(fault, file=sys.stderr)
        unpack_distribution_etcd(directory)
    if reason := why_unusable(binary, directory):
        raise MissingPrerequisite(f"{binary.name} was built but {reason}")


def obtain(every: Iterable[Binary], directory: Path, flags: str, module: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    wanted = []
    for binary in every:
        if reason := why_unusable(binary, directory):
            log_line(f"{binary.name} {reason}")
            wanted.append(binary)
        else:
            log_line(f"{binary.name} is available")
    if not wanted:
        return
    go = go_command()
    for binary in wanted:
        obtain_one(go, binary, directory, flags, module)


def check(wanted: Iterable[Binary], directory: Path) -> None:
    faults = [f"{binary.name} {reason}" for binary in wanted if (reason := why_unusable(binary, directory))]
    if faults:
        raise MissingPrerequisite(f"In {directory}: " + "; ".join(faults))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="build nothing; print the directory, or fail with the reason"
    )
    only_check = parser.parse_args().check
    given = os.environ.get("KUBEBUILDER_ASSETS")
    try:
        module = module_directory(os.environ.get("KUBE", ""))
        kubernetes = pinned_versions(module)[KUBERNETES]
        directory = Path(given) if given else cache_directory(kubernetes)
        if given:
            check((binary._replace(expected_output="") for binary in binaries(kubernetes)), directory)
        elif only_check:
            check(binaries(kubernetes), directory)
        else:
            log_line(f"Kubernetes {kubernetes} in {directory}")
            obtain(binaries(kubernetes), directory, linker_flags(kubernetes), module)
    except MissingPrerequisite as fault:
        print(fault, file=sys.stderr)
        return 1
    log_line(str(directory) if only_check else f"Ready: KUBEBUILDER_ASSETS={directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
