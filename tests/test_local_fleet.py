"""The local fleet keeps its plan, and a member that was unjoined stays unjoined."""

import asyncio
from pathlib import Path

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.client.client import resource_of
from trimtab.errors import InputError
from trimtab.local_fleet import LocalFleet, read_stored_plan
from trimtab.simulate.fleet import FleetPlan, uniform_fleet

CLUSTERS = resource_of(kind_of(Cluster))


async def run(directory: Path, plan: FleetPlan | None, *, delete: str = "") -> list[str]:
    """Start and stop the fleet once; the names of the clusters that are joined."""
    local = LocalFleet(directory, "127.0.0.1", 0, plan, "trimtab", {})
    try:
        await local.open()
        await local.start()
        if delete:
            await local.fleet.client.patch(CLUSTERS, "", delete, {"metadata": {"finalizers": None}})
            await local.fleet.client.delete(CLUSTERS, "", delete)
        return sorted(raw["metadata"]["name"] for raw in (await local.fleet.client.list(CLUSTERS)).items)
    finally:
        await local.stop()


def test_next_start_uses_the_stored_plan_and_does_not_rejoin_members(tmp_path: Path) -> None:
    plan = uniform_fleet(2, 1)
    first, second = (member.name for member in plan.members)
    asyncio.run(run(tmp_path, plan, delete=second))
    stored = read_stored_plan(tmp_path / "fleet.json")
    assert stored is not None
    assert [member.name for member in stored.members] == [first, second]
    assert second not in asyncio.run(run(tmp_path, None))


def test_stored_plan_of_an_earlier_build_is_converted(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text('{"members": [{"name": "a"}], "binder": "first-fit"}')
    stored = read_stored_plan(tmp_path / "fleet.json")
    assert stored is not None
    assert stored.scheduler == "first-fit"


def test_unreadable_plan_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text("{")
    with pytest.raises(InputError, match="delete it to start with another fleet"):
        read_stored_plan(tmp_path / "fleet.json")
    assert read_stored_plan(tmp_path / "none.json") is None
