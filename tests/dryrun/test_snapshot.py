"""Snapshots of a fleet: plans of them are the plans of the fleet, and no secret is in them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_in_m1_and_m2
from trimtab.api.kinds.cluster import Cluster, ClusterSpec
from trimtab.api.value import Meta, Raw
from trimtab.clock import EPOCH, LoopClock
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState, fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.snapshot import Snapshot, names_to_hash, read_snapshot, snapshot_of, with_hashed_names
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


def test_hashes_of_two_snapshots_differ_so_that_names_cannot_be_guessed() -> None:
    state = FleetState.of([Cluster(metadata=Meta(name="production-eu"))], (), EPOCH)
    hashes = [snapshot_of(state, hash_names=True).objects[0]["metadata"]["name"] for _ in range(2)]
    assert hashes[0] != hashes[1]


def test_names_are_hashed_in_keys_and_between_any_separators() -> None:
    names = names_to_hash([{"metadata": {"name": "acme"}}])
    hidden = with_hashed_names({"acme": "reg.example/acme:1@x", "text": ["(acme)", "acmeshop"]}, names)
    assert hidden == {names["acme"]: f"reg.example/{names['acme']}:1@x", "text": [f"({names['acme']})", "acmeshop"]}


def test_addresses_of_clusters_and_values_of_variables_are_left_out() -> None:
    spec = ClusterSpec(api_endpoint="https://swordfish", proxy_url="http://u:swordfish@proxy", region="eu")
    env = [{"name": "PASSWORD", "value": "swordfish"}, {"name": "REF", "valueFrom": {"configMapKeyRef": {"name": "c"}}}]
    pod = {"containers": [{"name": "c", "env": env}], "initContainers": [{"name": "i", "env": env}]}
    template = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": {"spec": pod}}}
    state = FleetState.of([Cluster(metadata=Meta(name="m1"), spec=spec)], [template], EPOCH)
    snapshot = snapshot_of(state)
    assert "swordfish" not in msgspec.json.encode(snapshot).decode()
    assert snapshot.objects[0]["spec"]["region"] == "eu"
    kept = snapshot.templates[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert kept == [{"name": "PASSWORD"}, env[1]]


CLUSTER = {
    "apiVersion": "cluster.karmada.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "m1"},
    "spec": {"syncMode": "Push"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 2},
}
BUDGET = {
    "apiVersion": "trimtab.dev/v1alpha1",
    "kind": "DisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {}, "minAvailable": "x%"},
}


def written(tmp_path: Path, objects: list[Any] | None = None, templates: list[Any] | None = None, **more: Any) -> Path:
    file = tmp_path / "crafted.json"
    body = {
        "taken": "2026-01-01T00:00:00Z",
        "format": "trimtab-snapshot/1",
        "objects": [CLUSTER] if objects is None else objects,
        "templates": [DEPLOYMENT] if templates is None else templates,
    }
    file.write_bytes(msgspec.json.encode({**body, **more}))
    return file


def named(raw: Raw, **metadata: Any) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], **metadata}}


def test_crafted_file_is_like_one_that_was_written(tmp_path: Path) -> None:
    assert [c.name for c in read_snapshot(written(tmp_path)).all(Cluster)] == ["m1"]


@pytest.mark.parametrize(
    "objects",
    [
        *(
            [named(CLUSTER, name=name)]
            for name in ("../../evil", "/etc/evil", "", None, [], 5, "UPPER", "a" * 300, "..", "a%2fb")
        ),
        *([{**CLUSTER, "metadata": metadata}] for metadata in (None, [], "x", 5, {})),
        *([{key: value for key, value in CLUSTER.items() if key != field}] for field in CLUSTER if field != "spec"),
        *([{**CLUSTER, "kind": kind}] for kind in ("Secret", "Nothing", [], 5)),
        [{**CLUSTER, "apiVersion": []}],
        [{**CLUSTER, "spec": 5}],
        [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}],
        [BUDGET],
        [5],
    ],
)
def test_objects_that_no_server_would_have_stored_are_refused(tmp_path: Path, objects: list[Any]) -> None:
    with pytest.raises(InputError):
        read_snapshot(written(tmp_path, objects))


@pytest.mark.parametrize(
    "template",
    [
        *(named(DEPLOYMENT, name=name) for name in ("a/b", ".", "..", "", None, [], "a%2fb")),
        *(named(DEPLOYMENT, namespace=namespace) for namespace in ("../x", "a/b", 5, [], "UPPER")),
        {**DEPLOYMENT, "spec": 5},
        {**DEPLOYMENT, "spec": {"replicas": "many"}},
        {**DEPLOYMENT, "kind": []},
    ],
)
def test_templates_with_paths_as_names_or_of_another_shape_are_refused(tmp_path: Path, template: Raw) -> None:
    with pytest.raises(InputError):
        read_snapshot(written(tmp_path, templates=[template]))


def test_settings_that_users_cannot_give_are_ignored(tmp_path: Path) -> None:
    given = {"agent": "m1", "owned-members": [], "pushes-only": True, "failover": "x", "evacuate-after-seconds": 7}
    assert read_snapshot(written(tmp_path, settings=given)).settings == {"evacuate-after-seconds": 7}


def test_file_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, templates=[])
    file.write_bytes(
        file.read_bytes().replace(b'"templates":[', b'"templates":[' + b'{"a":' * 10**5 + b"1" + b"}" * 10**5)
    )
    with pytest.raises(InputError, match="is not a snapshot"):
        read_snapshot(file)
