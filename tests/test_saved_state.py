"""A fleet whose controllers stop and start again with a state file: they work on what has changed, and miss nothing."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from builders import deployment

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.config import Secret
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.well_known import FORCE_LEAVE
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import AlreadyExists, NotFound
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
BINDINGS, WORKS = resource_of(kind_of(ResourceBinding)), resource_of(kind_of(Work))
CLUSTERS, SECRETS = resource_of(kind_of(Cluster)), resource_of(kind_of(Secret))
PLAN = FleetPlan(members=(MemberPlan(name="m1"), MemberPlan(name="m2")), lean=True, pace="instant")
NAMES = ("web", "shop", "mail")
PER_WORKLOAD = {"detect", "schedule", "dispatch", "execute", "aggregate"}

Meanwhile = Callable[[EmbeddedFleet], Awaitable[None]]


def policy(**placement: Any) -> Raw:
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": "all", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}, **placement},
        },
    }


class Restart:
    """A fleet with some workloads, whose controllers are stopped and started again."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self.fleet = fleet
        self.reconciled: dict[str, int] = {}
        """Reconciles since the start, by controller."""
        self.written: list[int] = []
        """Revisions since the start: of the host, and of each member."""
        self.members: dict[str, dict[str, tuple[str, int]]] = {}
        """Image and replicas of each Deployment, by member."""
        self.works: set[str] = set()
        self.bindings: set[str] = set()


async def settle(fleet: EmbeddedFleet) -> None:
    await asyncio.sleep(60)
    assert fleet.plane is not None
    assert fleet.plane.is_idle


async def create_workloads(fleet: EmbeddedFleet) -> None:
    await fleet.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    await fleet.client.create(POLICIES, policy())
    for name in NAMES:
        await fleet.client.create(DEPLOYMENTS, {**deployment(), "metadata": {"name": name, "namespace": "shop"}})


async def restart(
    state_file: Path | None,
    meanwhile: Meanwhile | None = None,
    *,
    profile: Profile = TRIMTAB,
    settles_first: bool = True,
    afterwards: Meanwhile | None = None,
) -> Restart:
    """Stop the controllers, let something happen, start them and wait until everything is settled."""
    clock = LoopClock()
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
    await host.start()
    fleet = EmbeddedFleet(PLAN, host=host, clock=clock, profile=profile, state_file=state_file)
    found = Restart(fleet)
    try:
        await fleet.start()
        await asyncio.sleep(30)
        await create_workloads(fleet)
        if settles_first:
            await settle(fleet)
        await fleet.stop_plane()
        if meanwhile is not None:
            await meanwhile(fleet)
        stores = [host.store, *(member.server.store for member in fleet.world)]
        before = [store.revision for store in stores]
        await fleet.start_plane()
        await settle(fleet)
        assert fleet.plane is not None
        found.reconciled = {one.controller.name: one.reconciles for one in fleet.plane.manager.reconcilers}
        found.written = [store.revision - old for store, old in zip(stores, before, strict=True)]
        if afterwards is not None:
            await afterwards(fleet)
            await settle(fleet)
        for member in fleet.world:
            found.members[member.name] = await delivered(member.client)
        found.works = {one["metadata"]["name"] for one in (await fleet.client.list(WORKS)).items}
        found.bindings = {one["metadata"]["name"] for one in (await fleet.client.list(BINDINGS)).items}
        return found
    finally:
        await fleet.stop()
        await host.stop()


async def delivered(client: Client) -> dict[str, tuple[str, int]]:
    listed = (await client.list(DEPLOYMENTS, "shop")).items
    return {
        one["metadata"]["name"]: (one["spec"]["template"]["spec"]["containers"][0]["image"], one["spec"]["replicas"])
        for one in listed
    }


def image(name: str) -> Raw:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def test_nothing_is_reconciled_again_and_nothing_is_written_where_nothing_has_changed(tmp_path: Path) -> None:
    found = run_virtually(restart(tmp_path / "state"))
    unexpected = {*PER_WORKLOAD, "forced_departure"}
    assert {name: count for name, count in found.reconciled.items() if name in unexpected and count} == {}
    assert found.written == [0, 0, 0]
    assert sorted(found.members["m1"]) == sorted(NAMES)


def test_without_a_state_file_everything_is_reconciled(tmp_path: Path) -> None:
    found = run_virtually(restart(None))
    assert all(found.reconciled[name] >= len(NAMES) for name in PER_WORKLOAD)


def test_a_changed_template_is_delivered_and_the_others_are_left_alone(tmp_path: Path) -> None:
    async def change(fleet: EmbeddedFleet) -> None:
        await fleet.client.patch(DEPLOYMENTS, "shop", "web", image("app:2"), type="strategic")

    found = run_virtually(restart(tmp_path / "state", change))
    assert [one["web"][0] for one in found.members.values()] == ["app:2", "app:2"]
    assert found.reconciled["execute"] < 10


def test_a_template_that_was_deleted_meanwhile_is_removed_from_the_members(tmp_path: Path) -> None:
    async def delete(fleet: EmbeddedFleet) -> None:
        await fleet.client.delete(DEPLOYMENTS, "shop", "web")

    found = run_virtually(restart(tmp_path / "state", delete))
    assert [sorted(one) for one in found.members.values()] == [["mail", "shop"], ["mail", "shop"]]
    assert not any(name.startswith("web-") for name in found.works | found.bindings)


def test_works_of_a_binding_that_was_removed_by_force_meanwhile_are_deleted(tmp_path: Path) -> None:
    async def remove(fleet: EmbeddedFleet) -> None:
        await fleet.client.delete(DEPLOYMENTS, "shop", "web")
        await fleet.client.patch(BINDINGS, "shop", "web-deployment", {"metadata": {"finalizers": None}})
        with contextlib.suppress(NotFound):  # the garbage collector may have deleted it with its template
            await fleet.client.delete(BINDINGS, "shop", "web-deployment")

    found = run_virtually(restart(tmp_path / "state", remove))
    assert [sorted(one) for one in found.members.values()] == [["mail", "shop"], ["mail", "shop"]]
    assert not any(name.startswith("web-") for name in found.works | found.bindings)


def test_a_work_that_was_deleted_meanwhile_is_created_again(tmp_path: Path) -> None:
    async def delete(fleet: EmbeddedFleet) -> None:
        first = (await fleet.client.list(WORKS)).items[0]["metadata"]
        await fleet.client.patch(WORKS, first["namespace"], first["name"], {"metadata": {"finalizers": None}})
        await fleet.client.delete(WORKS, first["namespace"], first["name"])

    found = run_virtually(restart(tmp_path / "state", delete))
    assert found.reconciled["dispatch"] > 0
    assert [sorted(one) for one in found.members.values()] == [sorted(NAMES)] * 2


@pytest.mark.parametrize("state_file", ["state", None])
def test_workloads_leave_a_cluster_that_was_forced_out_meanwhile(tmp_path: Path, state_file: str | None) -> None:
    async def force_out(fleet: EmbeddedFleet) -> None:
        await fleet.client.patch(CLUSTERS, "", "m2", {"metadata": {"annotations": {FORCE_LEAVE: "true"}}})
        await fleet.client.delete(CLUSTERS, "", "m2")

    found = run_virtually(restart(tmp_path / state_file if state_file else None, force_out))
    assert found.reconciled["forced_departure"] >= len(NAMES)
    assert {one: sorted(names) for one, names in found.members.items()} == {"m1": sorted(NAMES), "m2": []}


def test_what_was_changed_or_deleted_in_a_member_meanwhile_is_repaired(tmp_path: Path) -> None:
    async def drift(fleet: EmbeddedFleet) -> None:
        m1, m2 = list(fleet.world)
        await m1.client.patch(DEPLOYMENTS, "shop", "web", image("other:1"), type="strategic")
        await m2.client.delete(DEPLOYMENTS, "shop", "mail")

    found = run_virtually(restart(tmp_path / "state", drift))
    assert len({one["web"] for one in found.members.values()}) == 1
    assert found.members["m1"]["web"][0] != "other:1"
    assert "mail" in found.members["m2"]


def test_a_member_that_cannot_be_reached_at_the_start_is_compared_when_it_returns(tmp_path: Path) -> None:
    async def cut_off(fleet: EmbeddedFleet) -> None:
        m1, _ = list(fleet.world)
        await m1.client.patch(DEPLOYMENTS, "shop", "web", image("other:1"), type="strategic")
        m1.stop_api()
        asyncio.get_running_loop().call_later(20, m1.start_api)

    found = run_virtually(restart(tmp_path / "state", cut_off))
    assert found.members["m1"]["web"][0] != "other:1"


def test_a_template_that_changes_after_the_start_is_delivered(tmp_path: Path) -> None:
    async def change(fleet: EmbeddedFleet) -> None:
        await fleet.client.patch(DEPLOYMENTS, "shop", "web", image("app:2"), type="strategic")

    found = run_virtually(restart(tmp_path / "state", afterwards=change))
    assert [one["web"][0] for one in found.members.values()] == ["app:2", "app:2"]


def test_what_was_not_finished_is_finished(tmp_path: Path) -> None:
    found = run_virtually(restart(tmp_path / "state", settles_first=False))
    assert [sorted(one) for one in found.members.values()] == [sorted(NAMES)] * 2


def test_a_damaged_file_costs_only_time(tmp_path: Path) -> None:
    async def damage(fleet: EmbeddedFleet) -> None:
        content = bytearray((tmp_path / "state").read_bytes())
        content[-20] ^= 1
        (tmp_path / "state").write_bytes(content)

    found = run_virtually(restart(tmp_path / "state", damage))
    assert all(found.reconciled[name] >= len(NAMES) for name in PER_WORKLOAD)
    assert found.written == [0, 0, 0]


def test_damaged_tables_are_read_again(tmp_path: Path) -> None:
    async def damage(fleet: EmbeddedFleet) -> None:
        content = bytearray((tmp_path / "state").read_bytes())
        for place in range(0, len(content) // 2, 64):
            content[place] ^= 1
        (tmp_path / "state").write_bytes(content)

    found = run_virtually(restart(tmp_path / "state", damage))
    assert found.written == [0, 0, 0]
    assert [sorted(one) for one in found.members.values()] == [sorted(NAMES)] * 2


def test_the_file_is_used_once_and_has_no_secrets(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def look(fleet: EmbeddedFleet) -> None:
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
        seen.append((tmp_path / "state").read_bytes())
        await fleet.start_plane()
        assert not (tmp_path / "state").exists()
        secret = {"metadata": {"name": "password", "namespace": "shop"}, "stringData": {"key": "confidential"}}
        await fleet.client.create(SECRETS, secret)
        await settle(fleet)
        await fleet.stop_plane()
        seen.append((tmp_path / "state").read_bytes())

    run_virtually(restart(tmp_path / "state", look))
    assert all(b"password" not in content for content in seen)
    assert all(b"member" in content or b"m1" in content for content in seen)


def test_the_profile_of_upstream_repeats_its_writes_whatever_was_saved(tmp_path: Path) -> None:
    found = run_virtually(restart(tmp_path / "state", profile=UPSTREAM))
    assert found.written[0] > 0


async def random_changes(fleet: EmbeddedFleet, rng: random.Random) -> None:
    """A handful of changes on the host and in members, some of which concern the same workload."""
    m1, m2 = list(fleet.world)
    for _ in range(rng.randint(1, 4)):
        name, member = rng.choice(NAMES), rng.choice((m1, m2))
        action = rng.randrange(8)
        try:
            if action == 0:
                await fleet.client.patch(DEPLOYMENTS, "shop", name, {"spec": {"replicas": rng.randint(0, 5)}})
            elif action == 1:
                await fleet.client.patch(DEPLOYMENTS, "shop", name, image("app:3"), type="strategic")
            elif action == 2:
                await fleet.client.delete(DEPLOYMENTS, "shop", name)
            elif action == 3:
                await member.client.delete(DEPLOYMENTS, "shop", name)
            elif action == 4:
                await member.client.patch(DEPLOYMENTS, "shop", name, {"spec": {"replicas": 9}})
            elif action == 5:
                chosen = {"clusterAffinity": {"clusterNames": [member.name]}}
                await fleet.client.patch(POLICIES, "shop", "all", {"spec": {"placement": chosen}})
            elif action == 6:
                await fleet.client.patch(CLUSTERS, "", member.name, {"metadata": {"labels": {"seen": "yes"}}})
            else:
                new = {"metadata": {"name": "late", "namespace": "shop"}}
                await fleet.client.create(DEPLOYMENTS, {**deployment(), **new})
        except (NotFound, AlreadyExists):
            pass  # an earlier change has removed or created it


@pytest.mark.parametrize("seed", range(8))
def test_a_start_with_and_without_a_state_file_end_the_same_whatever_happened_meanwhile(
    tmp_path: Path, seed: int
) -> None:
    async def changes(fleet: EmbeddedFleet) -> None:
        await random_changes(fleet, random.Random(seed))

    async def later_changes(fleet: EmbeddedFleet) -> None:
        await random_changes(fleet, random.Random(seed + 1000))

    files = (tmp_path / "state", None)
    resumed, plain = (run_virtually(restart(file, changes, afterwards=later_changes)) for file in files)
    assert resumed.members == plain.members
    assert resumed.works == plain.works
    assert resumed.bindings == plain.bindings
