"""Runs the commands of one page in a directory of its own, against a real `trimtab up`."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from docs.command_server import client_script
from docs.markdown_blocks import RUN, Step, blocks_of, matches, steps_of

ROOT = Path(__file__).parents[2]
READY_SECONDS = 240
MATCH_SECONDS = 60
COMMAND_SECONDS = 300
READING = re.compile(
    r"(cat|grep|kubectl (--context \S+ )?(get|describe|top)|trimtab (explain|fleet|history|plan|approve|decide|maintenance))\b"
)
FAILURE = re.compile(r"trimtab: |FAILED |Error from server|.* is not removed: |.* cannot be drained now ")
"""In the output of a command that ends with an error, because it is wrong or something is in the way."""
PLANS = re.compile(r"trimtab (plan|rebalance .*--dry-run)")
NO_FLEET = (".venv/bin/pytest", "trimtab decide", "trimtab play", "cat ", "cp ", "head ", "sed ")
FLEET = re.compile(r"<!-- fleet:(?P<options>[^\n]*) -->")
PORT = re.compile(r"<!-- port: (?P<number>\d+) -->")
CHECKOUT = re.compile(r"<!-- checkout:(?P<paths>[^\n]*) -->")


def write_script(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class PageSession:
    """The state of one page: its directory, its environment and its fleet."""

    def __init__(self, page: Path, directory: Path, commands: Path) -> None:
        """`commands` is the socket of a command server, which runs all commands that end by themselves.

        It has imported the source of this checkout; a page that adds files to the source has a process per command.
        """
        self._page = page
        self._directory = directory
        self._exports: list[str] = []
        self._fleet: subprocess.Popen[bytes] | None = None
        self._background: list[subprocess.Popen[bytes]] = []
        self._ports = {found["number"]: str(free_port()) for found in PORT.finditer(page.read_text(encoding="utf-8"))}
        binaries = directory / "bin"
        binaries.mkdir()
        source = self._copy_checkout() / "src"
        command = f'PYTHONPATH="{source}" exec "{sys.executable}" -m trimtab "$@"'
        if source == ROOT / "src":
            client = directory / ".command-client"
            client.write_text(client_script(commands))
            client.chmod(0o755)
            command = f'test "$1" = up || exec "{client}" "$@"\n{command}'
        write_script(binaries / "trimtab", command)
        pytest = f'PYTHONPATH="{source}" exec "{sys.executable}" -m pytest -p no:cacheprovider "$@"'
        write_script(directory / ".venv" / "bin" / "pytest", pytest)
        write_script(binaries / "python3", f'exec "{sys.executable}" "$@"')
        for name in ("examples", "stories", "gitops"):
            (directory / name).symlink_to(ROOT / name)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LD_LIBRARY_PATH")},
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "HOME": str(directory),
            "KUBECONFIG": str(directory / ".trimtab" / "kubeconfig"),
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def _copy_checkout(self) -> Path:
        """Where the source is: a copy in the directory of the page, if the page adds files to it."""
        found = CHECKOUT.search(self._page.read_text(encoding="utf-8"))
        if found is None:
            return ROOT
        for path in (path for pattern in found["paths"].split() for path in ROOT.glob(pattern)):
            target = self._directory / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, target)
        return self._directory

    def run(self) -> None:
        """Write the files and run the commands of the page in their order."""
        try:
            for block in blocks_of(self._page):
                if block.title:
                    path = self._directory / block.title
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(self._with_free_ports(block.body))
                elif block.language == RUN:
                    self._run_step(Step(block.body, (), block.line))
                elif block.language == "console" and not block.skipped:
                    for step in steps_of(block):
                        self._run_step(step)
        finally:
            self._stop_processes()

    def _with_free_ports(self, text: str) -> str:
        return re.sub(r"\b\d+\b", lambda found: self._ports.get(found[0], found[0]), text)

    def _run_step(self, step: Step) -> None:
        step = step._replace(command=self._with_free_ports(step.command))
        if step.command.startswith("export "):
            self._exports.append(step.command.replace("$PWD/.venv/bin:", ""))
            return
        if step.command.split()[:2] in (["make", "up"], ["trimtab", "up"]):
            self._start_fleet(step)
            return
        if step.command.endswith(" &"):
            self._start_in_background(step.command.removesuffix(" &"))
            return
        if self._fleet is None and not step.command.startswith(NO_FLEET):
            self._start_fleet(None)
        deadline = time.monotonic() + MATCH_SECONDS
        while True:
            code, lines = self._execute(step.command)
            allowed = (0, 2, 3) if PLANS.match(step.command) else (0,)
            expects_failure = any(FAILURE.match(line) for line in step.output)
            if (code in allowed or expects_failure) and matches(step.output, lines):
                return
            if not READING.match(step.command) or time.monotonic() > deadline:
                raise AssertionError(self._difference(step, code, lines))
            time.sleep(1)

    def _execute(self, command: str) -> tuple[int, list[str]]:
        script = "\n".join([*self._exports, command])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.decode().splitlines()

    def _start_in_background(self, command: str) -> None:
        """Start a command that ends with the page; what reads its output waits for it."""
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._background.append(started)

    def _difference(self, step: Step, code: int, lines: list[str]) -> str:
        expected, actual = "\n".join(step.output), "\n".join(lines)
        place = f"{self._page.relative_to(ROOT)}:{step.line}"
        return f"{place}: {step.command}\nexit code {code}\n--- the page says\n{expected}\n--- it prints\n{actual}"

    def _start_fleet(self, step: Step | None) -> None:
        """Start the fleet once, with the options of the step or the page; a step also checks what it prints."""
        if self._fleet is None:
            found = FLEET.search(self._page.read_text(encoding="utf-8"))
            options = found["options"].split() if found else []
            if step is not None and step.command.startswith("trimtab up "):
                options += shlex.split(step.command)[2:]
            log = self._directory / "up.log"
            with log.open("wb") as output:
                self._fleet = subprocess.Popen(
                    ["trimtab", "up", "--data-dir", ".trimtab", "--port", "0", *options],
                    cwd=self._directory,
                    env=self._environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    executable=str(self._directory / "bin" / "trimtab"),
                )
            deadline = time.monotonic() + READY_SECONDS
            while "Console:" not in log.read_text():
                assert self._fleet.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"the fleet did not start: {log.read_text()}"
                time.sleep(0.2)
        if step is not None:
            lines = (self._directory / "up.log").read_text().splitlines()
            assert matches(("...", *step.output, "..."), lines), self._difference(step, 0, lines)

    def _stop_processes(self) -> None:
        started = [*self._background, *([self._fleet] if self._fleet is not None else [])]
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=60)
