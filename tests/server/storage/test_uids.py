"""Ids of objects that are born."""

import os
from uuid import RFC_4122, UUID

from trimtab.server.storage.uids import random_uid


def test_an_id_is_a_random_uuid_as_the_standard_writes_it() -> None:
    for _ in range(100):
        text = random_uid()
        parsed = UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, RFC_4122, text)


def test_no_two_ids_are_the_same() -> None:
    assert len({random_uid() for _ in range(1000)}) == 1000


def test_a_process_that_was_forked_repeats_no_id_of_its_parent() -> None:
    random_uid()  # some more are ready now
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, random_uid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 36).decode() not in {random_uid() for _ in range(1000)}
