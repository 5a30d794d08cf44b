import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from trimtab.store.store import Store

ROUNDS = 4
PODS = "/registry//pods/default/"
WRITERS = """
import asyncio, os, sys
from pathlib import Path
from trimtab.store.index import Keep
from trimtab.store.store import Store
from trimtab.store.txn import Delete, Put

PODS = "/registry//pods/default/"

async def write(store, writer):
    pair = store.get(f"{PODS}{writer}-left")
    number = int(pair.value) if pair else 0
    while True:
        number += 1
        text = str(number).encode()
        operations = [Put(f"{PODS}{writer}-left", text), Put(f"{PODS}{writer}-right", text)]
        operations.append((Put(f"{PODS}{writer}-odd", bytes(3000)) if number % 2 else Delete(f"{PODS}{writer}-odd")))
        await store.commit(operations)
        os.write(1, f"{writer} {number} {store.revision}\\n".encode())

async def main():
    store = Store.open(Path(sys.argv[1]), Keep(revisions=2000))
    os.write(1, b"ready 0 0\\n")
    await asyncio.gather(*(write(store, writer) for writer in range(8)))

asyncio.run(main())
"""


def run_until_killed(directory: Path, seconds: float) -> dict[str, tuple[int, int]]:
    """What was acknowledged last, by writer, when the process died."""
    writers = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITERS), str(directory)], stdout=subprocess.PIPE)
    assert writers.stdout is not None
    assert writers.stdout.readline() == b"ready 0 0\n"
    time.sleep(seconds)
    writers.send_signal(signal.SIGKILL)
    lines, _ = writers.communicate()
    whole = (line.split() for line in lines.decode().split("\n")[:-1])
    return {writer: (int(number), int(revision)) for writer, number, revision in whole}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_at_random_moments_no_acknowledged_write_is_lost_and_none_is_half_there(tmp_path: Path) -> None:
    seed = int(os.environ.get("TRIMTAB_SEED", "7"))
    chance = random.Random(seed)
    followed = 1  # a watcher that goes on from where it was before each crash
    seen: list[int] = []
    for _ in range(ROUNDS):
        acknowledged = run_until_killed(tmp_path, chance.uniform(0.05, 0.5))

        async def look(acknowledged: dict[str, tuple[int, int]], followed: int) -> tuple[int, list[int]]:
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
            followed = max(followed, store.compacted)
            watch = store.watch("/", followed, limit=100_000)
            revisions = [event.revision for event in await watch.next(0)]
            assert revisions == list(range(followed + 1, store.revision + 1))
            await store.close()
            return store.revision, revisions

        followed, revisions = asyncio.run(look(acknowledged, followed))
        seen += revisions
    assert len(set(seen)) == len(seen)
