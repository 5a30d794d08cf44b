"""Garbage collection never looks at much at once, and still frees everything in the end."""

import subprocess
import sys

PROGRAM = """
import gc
from trimtab.cli.support.garbage_collection import SteppedCollection

SteppedCollection({options}).start()
seen = []


def count(phase, info):
    if phase == "start":
        seen.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))


{body}
"""
ALIVE = """
gc.callbacks.append(count)
kept = [[{"a": [n]}] for n in range(400_000)]
print(len(seen) > 5, max(seen) < 50_000, gc.get_freeze_count() > 500_000)
"""
LEAKING = """
freed = 0


class Node:
    def __del__(self):
        global freed
        freed += 1


most, start = 0, gc.get_freeze_count()
for _ in range(400):
    held = Node(), [[] for _ in range(40_000)]  # more than are created between two collections, which exempts them
    held[0].cycle = held
    del held
    most = max(most, gc.get_freeze_count() - start)
print(freed > 300, 500_000 < most < 2_000_000)
"""


def output_of(body: str, options: str = "") -> list[str]:
    program = PROGRAM.format(body=body, options=options)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_collection_looks_only_at_what_was_created_since_the_last_one() -> None:
    assert output_of(ALIVE) == ["True", "True", "True"]


def test_cycles_of_exempted_objects_are_freed_when_there_are_many() -> None:
    assert output_of(LEAKING, "min_frozen=100_000") == ["True", "True"]
