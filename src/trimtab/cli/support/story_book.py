"""The stories of a directory for the console: each is played by `trimtab play` in a process of its own."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trimtab.api.yaml_documents import FILE, YamlError, load_yaml
from trimtab.console.page import StoryFacts
from trimtab.errors import InputError
from trimtab.store.files import replace_file
from trimtab.stories.story import parse_seconds
from trimtab.tasks import wait_for_tasks

log = logging.getLogger("trimtab.console")

MAX_PLAYING = 2
MAX_LINES = 2000
MAX_STORIES = 500
PLAYING = "move"
_BODY = ("fleet:", "settings:", "timeline:", "members:", "expect:", "profile:")


class StoryVerdict(NamedTuple):
    """What the last run of a story has found."""

    state: str
    verdict: str
    lived: float = 0.0
    took: float = 0.0
    by: str = ""


class StoryDirectory:
    """Lists and plays the stories of one directory; the verdicts are kept in a file."""

    def __init__(self, directory: Path, verdicts: Path | None = None) -> None:
        self._directory = directory
        self._verdicts = verdicts
        self._stories: dict[str, StoryFacts] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_read = False
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a story goes on."""
        self._listeners.append(listener)

    def stories(self) -> list[StoryFacts]:
        if not self._is_read:
            self._is_read = True
            files = sorted(self._directory.glob("*.yaml"))[:MAX_STORIES]
            self._stories = {file.stem: facts_of(file) for file in files}
            for name, known in self._stored_verdicts().items():
                if name in self._stories:
                    self._stories[name] = self._stories[name]._replace(**known._asdict())
        return list(self._stories.values())

    def play(self, name: str, user: str) -> None:
        """Start to play a story; its lines appear while it runs."""
        if name in self._processes:
            raise InputError(f"{name} is being played already")
        if len(self._processes) >= MAX_PLAYING:
            raise InputError(f"{MAX_PLAYING} stories are being played; wait until one has ended")
        self._stories[name] = self._stories[name]._replace(
            state=PLAYING, verdict="playing", lines=(), lived=0.0, took=0.0, by=user
        )
        task = asyncio.get_running_loop().create_task(self._run(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, name: str) -> None:
        if name in self._processes:
            with contextlib.suppress(ProcessLookupError):
                self._processes[name].terminate()

    async def close(self) -> None:
        for name in list(self._processes):
            self.stop(name)
        await wait_for_tasks(self._tasks, log)

    async def _run(self, name: str) -> None:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "trimtab", "play", str(self._directory / f"{name}.yaml")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._processes[name] = process
        lines: list[str] = []
        assert process.stdout is not None
        try:
            async for raw in process.stdout:
                line = raw.decode("utf-8", "replace").rstrip()
                if line and len(lines) < MAX_LINES:
                    lines.append(line[:400])
                    self._update(name, lines=tuple(lines), lived=lived_seconds(line), took=time.monotonic() - began)
            code = await process.wait()
        finally:
            self._processes.pop(name, None)
        verdict, state = ("all expectations were met", "good") if code == 0 else (failure_of(lines), "none")
        self._update(name, state=state, verdict=verdict, took=time.monotonic() - began)
        self._store_verdicts()

    def _stored_verdicts(self) -> dict[str, StoryVerdict]:
        if self._verdicts is None or not self._verdicts.exists():
            return {}
        try:
            return msgspec.json.decode(self._verdicts.read_bytes(), type=dict[str, StoryVerdict])
        except (OSError, msgspec.MsgspecError):
            return {}  # the stories can be played again

    def _store_verdicts(self) -> None:
        """Keep the verdicts; without room on the disk they are forgotten with the process."""
        if self._verdicts is not None:
            played = (one for one in self._stories.values() if one.state and one.state != PLAYING)
            found = {one.name: StoryVerdict(one.state, one.verdict, one.lived, one.took, one.by) for one in played}
            with contextlib.suppress(OSError):
                replace_file(self._verdicts, msgspec.json.encode(found))

    def _update(self, name: str, **changes: Any) -> None:
        if not changes.get("lived", 1.0):
            del changes["lived"]
        self._stories[name] = self._stories[name]._replace(**changes)
        for listener in self._listeners:
            listener()


def facts_of(file: Path) -> StoryFacts:
    """Name and description at the head of a story; the rest is read when it is played."""
    head: list[str] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(_BODY):
            break
        head.append(line)
    try:
        found = load_yaml("\n".join(head), FILE)
    except YamlError:
        found = None
    known: dict[str, Any] = found if isinstance(found, dict) else {}
    return StoryFacts(file.stem, str(known.get("name") or file.stem), str(known.get("description") or ""))


def lived_seconds(line: str) -> float:
    """The time of the story at the start of a line such as `00:01:30  fail tokyo`; 0 for other lines."""
    word = line.partition(" ")[0]
    parts = word.split(":")
    if len(parts) in (2, 3) and all(part.replace(".", "").isdigit() for part in parts):
        return float(sum(float(part) * 60**power for power, part in enumerate(reversed(parts))))
    with contextlib.suppress(InputError, ValueError):
        return parse_seconds(word) if word[:1].isdigit() else 0.0
    return 0.0


def failure_of(lines: list[str]) -> str:
    return next((line for line in lines if line.startswith("FAILED at")), "stopped")[:200]
