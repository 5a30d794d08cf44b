"""Snapshots of a fleet: plans of them are the plans of the fleet, and no secret is in them."""

from pathlib import Path

import msgspec
import pytest
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.clock import EPOCH, LoopClock
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.snapshot import Snapshot, read_snapshot, snapshot_of
from trimtab.errors import InputError

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "key", "namespace": "default"},
    "stringData": {"password": "swordfish"},
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "conf", "namespace": "default"},
    "data": {"file": "swordfish"},
}


async def state_with_secrets(scene: MoveScenario) -> FleetState:
    await place_in_m1_and_m2(scene, "web")
    for raw in (SECRET, CONFIG):
        await scene.create(raw)
    return await fetch_fleet_state(scene.client, LoopClock().now(), changed_templates=(SECRET, CONFIG))


def test_plan_of_a_snapshot_is_the_plan_of_the_fleet(tmp_path: Path) -> None:
    async def act(scene: MoveScenario) -> None:
        state = await state_with_secrets(scene)
        file = tmp_path / "fleet.json"
        file.write_bytes(msgspec.json.encode(snapshot_of(state)))
        for change in (Change(lose_clusters=("m1",)), Change(drain=("m2",))):
            assert make_plan(read_snapshot(file), change) == make_plan(state, change)

    run_scenario(act)


def test_settings_of_the_controllers_are_part_of_a_snapshot(tmp_path: Path) -> None:
    settings = {"evacuate-after-seconds": 7}
    (tmp_path / "fleet.json").write_bytes(
        msgspec.json.encode(snapshot_of(FleetState.of((), (), EPOCH, settings=settings)))
    )
    assert read_snapshot(tmp_path / "fleet.json").settings == settings


def test_snapshot_has_no_secrets_and_no_contents() -> None:
    async def act(scene: MoveScenario) -> None:
        state = await state_with_secrets(scene)
        text = msgspec.json.encode(snapshot_of(state)).decode()
        assert "swordfish" not in text
        assert "managedFields" not in text
        assert not any(raw["kind"] == "Secret" for raw in snapshot_of(state).templates)

    run_scenario(act)


def test_hashed_names_hide_the_names_and_keep_the_plan(tmp_path: Path) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "verysecretproject")
        state = await fetch_fleet_state(scene.client, LoopClock().now())
        snapshot = snapshot_of(state, hash_names=True)
        file = tmp_path / "fleet.json"
        file.write_bytes(msgspec.json.encode(snapshot))
        hidden = read_snapshot(file)
        lost = next(raw["metadata"]["name"] for raw in snapshot.objects if raw["kind"] == "Cluster")
        names = [raw["metadata"]["name"] for raw in snapshot.templates]
        assert not any("verysecretproject" in name for name in names)
        plan = make_plan(hidden, Change(lose_clusters=(lost,)))
        assert [row.action for row in plan.workloads] == ["Move"]

    run_scenario(act)


def test_files_that_are_no_snapshots_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with pytest.raises(InputError, match="cannot read"):
        read_snapshot(file)
    file.write_text("{}")
    with pytest.raises(InputError, match="is not a snapshot"):
        read_snapshot(file)
    file.write_bytes(msgspec.json.encode(Snapshot(format="trimtab-snapshot/9", taken=EPOCH)))
    with pytest.raises(InputError, match="has the format"):
        read_snapshot(file)
