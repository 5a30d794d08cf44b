"""Random UIDs."""

import os
from uuid import RFC_4122, UUID

from trimtab.server.storage.uids import random_uid


def test_uid_is_an_rfc_4122_version_4_uuid() -> None:
    for _ in range(100):
        text = random_uid()
        parsed = UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, RFC_4122, text)


def test_uids_are_unique() -> None:
    assert len({random_uid() for _ in range(1000)}) == 1000


def test_forked_process_does_not_repeat_uids_of_its_parent() -> None:
    random_uid()  # the rest of the batch is cached now
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, random_uid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 36).decode() not in {random_uid() for _ in range(1000)}
