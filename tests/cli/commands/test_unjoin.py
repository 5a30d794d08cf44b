"""`trimtab unjoin`: the command waits until the cluster is removed."""

from typing import Any

import pytest

from trimtab.api.value import Raw
from trimtab.cli.commands.unjoin import wait_until_removed
from trimtab.clock import run_virtually
from trimtab.errors import InputError, NotFound


class FakeHost:
    """An API server whose cluster is removed after a number of reads."""

    def __init__(self, reads: int) -> None:
        self.reads = reads

    async def get(self, *_: Any) -> Raw:
        self.reads -= 1
        if self.reads < 0:
            raise NotFound("not found")
        return {}


def test_wait_ends_when_the_cluster_is_removed() -> None:
    host = FakeHost(reads=5)
    run_virtually(wait_until_removed(host, "east", 120))  # type: ignore[arg-type]
    assert host.reads == -1


def test_cluster_that_is_not_removed_in_time_is_reported() -> None:
    with pytest.raises(InputError, match="cluster east is not removed within 120 s; the removal continues"):
        run_virtually(wait_until_removed(FakeHost(reads=10_000), "east", 120))  # type: ignore[arg-type]
