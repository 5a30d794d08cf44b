"""`make writes`: compares the writes of the controllers in every flow and story with the recorded ones.

A refactoring must not change what the controllers write, nor in which order. Each flow and each story is run on virtual
time in both profiles. Every write of the control plane is recorded: the controller, the verb, the cluster (empty: the
host), the object and the body or patch. The writes are compared with `writes_data/<profile>/<name>.jsonl.gz`.

A story written for one profile may fail in the other. Its writes up to that point are compared all the same.

    python tests/compat/writes.py            compare all
    python tests/compat/writes.py NAME ...   compare some (names of flows or stories; shell patterns)
    python tests/compat/writes.py --record   record again, after an intended change of behaviour
"""

import argparse
import gzip
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from compat.flows import FLOWS, RecordedFlow  # noqa: E402 - the tests directory must be importable first

from trimtab.api.profile import PROFILES  # noqa: E402
from trimtab.api.value import Raw  # noqa: E402
from trimtab.client.client import EVENTS, Client, Resource  # noqa: E402
from trimtab.clock import run_virtually  # noqa: E402
from trimtab.errors import VirtualRunStuck  # noqa: E402
from trimtab.runtime.reconciler import CONTROLLER  # noqa: E402
from trimtab.stories.report import StoryFailed  # noqa: E402
from trimtab.stories.runner import run_in_memory  # noqa: E402
from trimtab.stories.story import read_story  # noqa: E402

STORIES = HERE.parents[1] / "stories"
RECORDED = HERE / "writes_data"
HIDDEN = {"resourceVersion", "managedFields"}
"""Fields whose values depend on writes of others; whether they are set is recorded."""
REAL_SECONDS_PER_RUN = 1800.0


class RecordedRun(NamedTuple):
    """One flow or story in one profile."""

    path: Path
    profile: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def recording(self) -> Path:
        return RECORDED / self.profile / f"{self.name}.jsonl.gz"


class RecordingClient:
    """Passes every call to a client and records the writes."""

    def __init__(self, client: Client, cluster: str, notes: list[str]) -> None:
        self._client = client
        self._cluster = cluster
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _note(self, verb: str, resource: Resource, namespace: str, name: str, body: Any) -> None:
        is_event = resource.kind == EVENTS.kind
        place = "/".join(part for part in (namespace, name) if part)
        note = [
            "" if is_event else CONTROLLER.get(),
            verb,
            self._cluster,
            f"{resource.id} {place}",
            mask_versions(body),
        ]
        self._notes.append(json.dumps(note, sort_keys=True, default=str))

    async def create(self, resource: Resource, obj: Raw, **options: Any) -> Raw:
        metadata = obj["metadata"]
        self._note("create", resource, metadata.get("namespace", ""), metadata.get("name", ""), obj)
        return await self._client.create(resource, obj, **options)

    async def create_together(self, resource: Resource, objects: Sequence[Raw], **options: Any) -> Sequence[Raw] | None:
        for obj in objects:
            metadata = obj["metadata"]
            self._note("create together", resource, metadata.get("namespace", ""), metadata["name"], obj)
        return await self._client.create_together(resource, objects, **options)

    async def record(self, events: Sequence[Raw]) -> None:
        for event in events:
            metadata = event["metadata"]
            self._note("record", EVENTS, metadata["namespace"], metadata["name"], event)
        await self._client.record(events)

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", **options: Any) -> Raw:
        metadata = obj["metadata"]
        self._note(f"replace {subresource}".strip(), resource, metadata.get("namespace", ""), metadata["name"], obj)
        return await self._client.replace(resource, obj, subresource=subresource, **options)

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **options: Any) -> Raw:
        verb = " ".join(filter(None, (f"{options.get('type', 'merge')} patch", options.get("subresource", ""))))
        self._note(verb, resource, namespace, name, patch)
        return await self._client.patch(resource, namespace, name, patch, **options)

    async def delete(self, resource: Resource, namespace: str, name: str, **options: Any) -> None:
        preconditions = sorted(key for key, value in options.items() if value)
        self._note("delete", resource, namespace, name, preconditions)
        await self._client.delete(resource, namespace, name, **options)

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        self._note(f"post {subresource}".strip(), resource, namespace, name, obj)
        return await self._client.submit(resource, namespace, name, subresource, obj)


def mask_versions(value: Any) -> Any:
    """The value, with what depends on unrelated writes replaced."""
    if isinstance(value, dict):
        return {key: "*" if key in HIDDEN and inner else mask_versions(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask_versions(item) for item in value]
    return value


def runs(patterns: list[str]) -> Iterator[RecordedRun]:
    paths = [*sorted(folder.parent for folder in FLOWS.glob("*/input.yaml")), *sorted(STORIES.glob("*.yaml"))]
    for path in paths:
        if not patterns or any(fnmatch(path.stem, pattern) for pattern in patterns):
            for profile in PROFILES:
                yield RecordedRun(path, profile)


def writes_of(run: RecordedRun) -> list[str]:
    """The writes of one run, in their order."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return _run(run)
    finally:
        logging.disable(disabled)


def _run(run: RecordedRun) -> list[str]:
    notes: list[str] = []

    def wrap(client: Client, cluster: str) -> Client:
        return RecordingClient(client, cluster, notes)  # type: ignore[return-value]

    if run.path.is_dir():
        RecordedFlow(run.path, PROFILES[run.profile], wrap_client=wrap).run()
        return notes
    story = read_story(run.path).but(profile=run.profile)
    try:
        run_virtually(
            run_in_memory(story, lambda *_: None, wrap_client=wrap),
            timeout=REAL_SECONDS_PER_RUN,
        )
    except StoryFailed:
        notes.append(json.dumps(["", "failed", "", "", None]))
    except VirtualRunStuck:
        notes.append(json.dumps(["", "stuck", "", "", None]))
    return notes


def recorded_writes(run: RecordedRun) -> list[str]:
    if not run.recording.exists():
        return []
    return gzip.decompress(run.recording.read_bytes()).decode().splitlines()


def first_difference(recorded: list[str], found: list[str]) -> str:
    """Describes the first difference of two runs; empty when they are equal."""
    for number, (before, now) in enumerate(zip(recorded, found, strict=False), start=1):
        if before != now:
            return f"write {number}\n       recorded {before}\n       found    {now}"
    if len(recorded) != len(found):
        longer = recorded if len(recorded) > len(found) else found
        which = "missing" if longer is recorded else "additional"
        return f"{len(recorded)} writes recorded, {len(found)} found; the first {which}: {longer[min(len(recorded), len(found))]}"
    return ""


def record(run: RecordedRun, found: list[str]) -> None:
    run.recording.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in found)
    run.recording.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="flows or stories; default: all")
    parser.add_argument("--record", action="store_true", help="write the recordings instead of comparing with them")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    arguments = parser.parse_args()
    chosen = list(runs(arguments.names))
    passed = failed = 0
    with ProcessPoolExecutor(max_workers=arguments.jobs) as pool:
        for run, found in zip(chosen, pool.map(writes_of, chosen), strict=True):
            if arguments.record:
                record(run, found)
                difference = ""
            else:
                difference = first_difference(recorded_writes(run), found)
            passed += not difference
            failed += bool(difference)
            if difference or arguments.record:
                print(
                    f"{'FAIL' if difference else 'ok  '} {run.profile} {run.name}: {difference or len(found)}",
                    flush=True,
                )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
