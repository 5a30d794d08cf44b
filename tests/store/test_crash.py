import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.revision_marker import RevisionMarker
from trimtab.store.store import Store

ROUNDS = 4
PODS = "/registry//pods/default/"
WRITERS = """
import asyncio, os, sys
from pathlib import Path
from trimtab.store.index import Retention
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

PODS = "/registry//pods/default/"

async def write(store, writer):
    pair = store.get(f"{PODS}{writer}-left")
    number = int(pair.value) if pair else 0
    while True:
        number += 1
        text = str(number).encode()
        operations = [PutKey(f"{PODS}{writer}-left", text), PutKey(f"{PODS}{writer}-right", text)]
        operations.append((PutKey(f"{PODS}{writer}-odd", bytes(3000)) if number % 2 else DeleteKey(f"{PODS}{writer}-odd")))
        await store.commit(operations)
        os.write(1, f"{writer} {number} {store.revision}\\n".encode())

async def main():
    store = Store.open(Path(sys.argv[1]), Retention(revisions=2000))
    os.write(1, b"ready 0 0\\n")
    await asyncio.gather(*(write(store, writer) for writer in range(8)))

asyncio.run(main())
"""


def run_until_killed(directory: Path, seconds: float) -> dict[str, tuple[int, int]]:
    """The last acknowledged write of each writer when the process is killed."""
    writers = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITERS), str(directory)], stdout=subprocess.PIPE)
    assert writers.stdout is not None
    assert writers.stdout.readline() == b"ready 0 0\n"
    first = writers.stdout.readline()
    time.sleep(seconds)
    writers.send_signal(signal.SIGKILL)
    rest, _ = writers.communicate()
    complete = (line.split() for line in (first + rest).decode().split("\n")[:-1])
    return {writer: (int(number), int(revision)) for writer, number, revision in complete}


def check_that_nothing_is_missing_without_the_log(directory: Path, acknowledged: int) -> None:
    """The database file alone has everything, if the process was killed right after a checkpoint, or it is refused."""
    copies = [directory.parent / f"copied-{time.monotonic_ns()}-{n}" for n in range(2)]
    whole, alone = (Path(shutil.copytree(directory, copy)) for copy in copies)
    (alone / "store.db-wal").unlink()
    try:
        store = Store.open(alone)
    except errors.StoreError:
        return
    other = Store.open(whole)  # it may have a last group that was not acknowledged
    assert store.revision >= acknowledged
    assert store.list("/").entries == other.list("/", at_revision=store.revision).entries
    asyncio.run(store.close())
    asyncio.run(other.close())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_process_loses_no_acknowledged_write_and_leaves_no_partial_transaction(tmp_path: Path) -> None:
    seed = int(os.environ.get("TRIMTAB_SEED", "7"))
    rng = random.Random(seed)
    resumed_from = 1  # a watch that resumes after each crash
    watched: list[int] = []
    for _ in range(ROUNDS):
        acknowledged = run_until_killed(tmp_path, rng.uniform(0.05, 0.5))
        newest = max(revision for _, revision in acknowledged.values())
        assert (RevisionMarker(tmp_path).read() or 0) >= newest
        check_that_nothing_is_missing_without_the_log(tmp_path, newest)

        async def check(acknowledged: dict[str, tuple[int, int]], resumed_from: int) -> tuple[int, list[int]]:
            store = Store.open(tmp_path)
            for writer, (number, revision) in acknowledged.items():
                left, right, odd = (store.get(f"{PODS}{writer}-{part}") for part in ("left", "right", "odd"))
                assert left is not None
                assert right is not None
                assert int(left.value) >= number
                assert left.value == right.value
                assert (odd is not None) == bool(int(left.value) % 2)
                assert store.revision >= revision
            assert acknowledged
            resumed_from = max(resumed_from, store.compacted_revision)
            watch = store.watch("/", resumed_from, limit=100_000)
            revisions = [event.revision for event in await watch.next(0)]
            assert revisions == list(range(resumed_from + 1, store.revision + 1))
            await store.close()
            return store.revision, revisions

        resumed_from, revisions = asyncio.run(check(acknowledged, resumed_from))
        watched += revisions
    assert len(set(watched)) == len(watched)
