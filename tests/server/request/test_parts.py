"""Long work is split into parts."""

import math
import time
from collections.abc import Iterator

import orjson
import pytest

from trimtab.server.request import parts
from trimtab.server.request.parts import PART_BYTES, Pacer, join_items, split_bytes


def test_parts_of_a_list_are_the_whole_document() -> None:
    items = [orjson.dumps({"name": str(number), "text": "x" * 1000}) for number in range(1500)]
    made = list(join_items(b'{"items":[', iter(items), b"]}"))
    assert len(made) > 4
    assert max(map(len, made)) < 2 * PART_BYTES
    assert len(orjson.loads(b"".join(made))["items"]) == 1500


def test_empty_list_is_one_part() -> None:
    assert list(join_items(b"[", iter(()), b"]")) == [b"[]"]


def test_part_ends_when_it_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(parts.time, "thread_time", lambda: next(now))
    monkeypatch.setattr(parts.time, "monotonic", lambda: math.inf)
    made = list(join_items(b"[", (b"1" for _ in range(10)), b"]"))
    assert len(made) == 11
    assert b"".join(made) == b"[1,1,1,1,1,1,1,1,1,1]"


def test_pacer_is_due_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds() -> Iterator[float]:
        yield from (0.0, 0.5, 1.0, 1.5)

    now = seconds()
    monkeypatch.setattr(time, "thread_time", lambda: next(now))
    monkeypatch.setattr(time, "monotonic", lambda: math.inf)
    pacer = Pacer(1.0)
    assert [pacer.is_due() for _ in range(3)] == [False, True, True]


def test_pacer_reads_cpu_time_only_when_so_much_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, read = iter((0.0, 0.5, 1.0)), iter((0.0, 1.0))
    monkeypatch.setattr(time, "thread_time", lambda: next(read))
    monkeypatch.setattr(time, "monotonic", lambda: next(passed))
    pacer = Pacer(1.0)
    assert [pacer.is_due() for _ in range(2)] == [False, True]


def test_body_is_split() -> None:
    body = bytes(PART_BYTES * 2 + 1)
    assert [len(part) for part in split_bytes(body)] == [PART_BYTES, PART_BYTES, 1]
    assert list(split_bytes(b"")) == [b""]
