"""An object of another control plane is a conflict, and is taken over at most once."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import cluster

from controllers.propagation.works.test_execute import member_key, object_in_member, view, work_for
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Meta, Raw
from trimtab.app import ControlPlane
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Delete, InCluster
from trimtab.controllers.propagation.works.execute import execute, works_after_a_new_id
from trimtab.controllers.propagation.works.object_ownership import foreign_control_plane
from trimtab.runtime.control_plane_identity import draw_identity
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store
from trimtab.store.writer_thread import OnDone, WriterThread

HOST = Namespace(metadata=Meta(name="kube-system", uid="own-id"))
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")


def owned_by(there: Raw, owner: str) -> Raw:
    return well_known.with_metadata(there, labels={}, annotations={well_known.CONTROL_PLANE: owner})


def with_overwrite(work: Any) -> Any:
    (manifest,) = work.spec.workload.manifests
    manifest = well_known.with_metadata(manifest, labels={}, annotations={well_known.CONFLICT_RESOLUTION: "overwrite"})
    return work.but(spec=work.spec.but(workload=work.spec.workload.but(manifests=(manifest,))))


def member_writes(effects: list[Any]) -> list[Any]:
    return [effect.effect for effect in effects if isinstance(effect, InCluster)]


def test_applied_object_carries_the_id_of_the_control_plane() -> None:
    work = work_for()
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work))))
    assert well_known.annotations_of(write.wanted)[well_known.CONTROL_PLANE] == "own-id"
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work, profile=UPSTREAM))))
    assert well_known.CONTROL_PLANE not in well_known.annotations_of(write.wanted)


def test_preserved_object_says_so_because_its_work_may_be_gone_when_its_cluster_joins_again() -> None:
    work = work_for(preserve_resources_on_deletion=True)
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work))))
    assert well_known.annotations_of(write.wanted)[well_known.ON_DELETION] == "Orphan"
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work, profile=UPSTREAM))))
    assert well_known.ON_DELETION not in well_known.annotations_of(write.wanted)


def test_foreign_object_is_a_conflict_that_the_work_reports() -> None:
    work = work_for()
    there = {member_key(work): owned_by(object_in_member(work, spec={}), "other-id")}
    effects = list(execute(work, view(cluster("m1"), HOST, work, members=there)))
    assert member_writes(effects) == []
    applied = find_condition(effects[0].status.conditions, "Applied")
    assert applied.status == "False"
    assert "managed by another control plane (other-id)" in applied.message


def test_overwrite_takes_a_foreign_object_over_once() -> None:
    work = with_overwrite(work_for())
    foreign = {member_key(work): owned_by(object_in_member(work, spec={}), "other-id")}
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work, members=foreign))))
    assert well_known.annotations_of(write.wanted)[well_known.CONTROL_PLANE] == "own-id"
    own = {member_key(work): owned_by(object_in_member(work), "own-id")}
    reported, *_ = execute(work, view(cluster("m1"), HOST, work, members=own))
    effects = list(execute(reported, view(cluster("m1"), HOST, reported, members=foreign)))
    assert member_writes(effects) == []
    assert "taken over by another control plane" in find_condition(effects[0].status.conditions, "Applied").message


def test_object_without_an_id_is_adopted_without_a_write_and_gets_the_id_with_the_next_change() -> None:
    work = work_for()
    there = {member_key(work): object_in_member(work)}
    assert member_writes(list(execute(work, view(cluster("m1"), HOST, work, members=there)))) == []
    there = {member_key(work): object_in_member(work, spec={})}
    (write,) = member_writes(list(execute(work, view(cluster("m1"), HOST, work, members=there))))
    assert well_known.annotations_of(write.wanted)[well_known.CONTROL_PLANE] == "own-id"


@pytest.mark.parametrize(("owner", "deleted"), [("own-id", True), ("other-id", False)])
def test_deletion_of_a_work_leaves_a_foreign_object(owner: str, deleted: bool) -> None:
    work = work_for()
    there = {member_key(work): owned_by(object_in_member(work), owner)}
    seen = view(cluster("m1"), HOST, work, members=there)
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=seen.now))
    effects = list(execute(leaving, seen))
    assert [type(write) for write in member_writes(effects)] == ([Delete] if deleted else [])
    assert effects[-1].metadata.finalizers == ()


RELEASED_COPY = HOST.but(
    metadata=HOST.metadata.but(
        annotations={
            "trimtab.dev/control-plane-id": "drawn-id",
            "trimtab.dev/former-control-planes": "own-id,earlier-id",
        }
    )
)


@pytest.mark.parametrize("former", ["own-id", "earlier-id"])
def test_object_of_a_former_id_is_taken_over_and_deleted_as_an_own_one(former: str) -> None:
    work = work_for()
    there = {member_key(work): owned_by(object_in_member(work), former)}
    (write,) = member_writes(list(execute(work, view(cluster("m1"), RELEASED_COPY, work, members=there))))
    assert well_known.annotations_of(write.wanted)[well_known.CONTROL_PLANE] == "drawn-id"
    seen = view(cluster("m1"), RELEASED_COPY, work, members=there)
    leaving = work.but(metadata=work.metadata.but(deletion_timestamp=seen.now))
    assert [type(write) for write in member_writes(list(execute(leaving, seen)))] == [Delete]


def test_object_of_a_released_copy_is_a_conflict_for_the_original() -> None:
    work = work_for()
    own = {member_key(work): owned_by(object_in_member(work), "own-id")}
    reported, *_ = execute(work, view(cluster("m1"), HOST, work, members=own))
    taken = {member_key(work): owned_by(object_in_member(work, spec={}), "drawn-id")}
    effects = list(execute(reported, view(cluster("m1"), HOST, reported, members=taken)))
    assert member_writes(effects) == []
    message = find_condition(effects[0].status.conditions, "Applied").message
    assert "taken over by another control plane (drawn-id)" in message
    assert "trimtab release --take-over drawn-id" in message


class DelayedClient(LocalClient):
    """Every replace takes a second, so that control planes that overwrite each other reach the end of the test."""

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        await asyncio.sleep(1)
        return await super().replace(resource, obj, subresource=subresource, manager=manager)


def test_two_control_planes_do_not_fight_over_one_object() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        servers = [ApiServer(Store(), ApiServerSettings(clock=clock)) for _ in range(3)]
        for server in servers:
            await server.start()
        *hosts, member = *map(LocalClient, servers[:2]), DelayedClient(servers[2])
        planes = [ControlPlane(host, clock=clock, connect=lambda _: member) for host in hosts]
        for plane, host, value in zip(planes, hosts, ("one", "two"), strict=True):
            await plane.start()
            await propagate(host, value, "Overwrite")
            await asyncio.sleep(60)
        before = await member.get(CONFIG_MAPS, "default", "settings")
        assert before["data"] == {"value": "two"}  # the second took it over
        await asyncio.sleep(600)
        after = await member.get(CONFIG_MAPS, "default", "settings")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert [await applied_status(host) for host in hosts] == ["False", "True"]
        for plane in planes:
            await plane.stop()
        for server in servers:
            await server.stop()

    run_virtually(scenario())


def write_at_once(_: WriterThread, work: Callable[[], None], on_done: OnDone) -> None:
    """Write in the loop: virtual time would run on while another thread writes."""
    work()
    asyncio.get_running_loop().call_soon(on_done, None)


def test_released_copy_of_a_host_and_its_original_do_not_fight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_host(name: str) -> ApiServer:
        server = ApiServer(Store.open(tmp_path / name), ApiServerSettings(clock=clock))
        await server.start()
        return server

    async def set_value(server: ApiServer, value: str) -> None:
        await LocalClient(server).patch(CONFIG_MAPS, "default", "settings", {"data": {"value": value}})

    async def scenario() -> None:
        in_member = ApiServer(Store(), ApiServerSettings(clock=clock))
        await in_member.start()
        member = DelayedClient(in_member)
        original = await open_host("original")
        plane = ControlPlane(LocalClient(original), clock=clock, connect=lambda _: member)
        await plane.start()
        await propagate(LocalClient(original), "one", "Abort")
        await asyncio.sleep(60)
        await plane.stop()
        await original.stop()
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        servers = [await open_host("original"), await open_host("copy")]
        identity = await draw_identity(LocalClient(servers[1]))
        planes = [ControlPlane(LocalClient(one), clock=clock, connect=lambda _: member) for one in servers]
        for plane, server, value in zip(planes, servers, ("two", "three"), strict=True):
            await plane.start()
            await set_value(server, value)
        await asyncio.sleep(60)
        before = await member.get(CONFIG_MAPS, "default", "settings")
        assert before["data"] == {"value": "three"}
        assert before["metadata"]["annotations"][well_known.CONTROL_PLANE] == identity.own
        await set_value(servers[0], "four")
        await asyncio.sleep(600)
        after = await member.get(CONFIG_MAPS, "default", "settings")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert [await applied_status(LocalClient(one)) for one in servers] == ["False", "True"]
        for plane, server in zip(planes, servers, strict=True):
            await plane.stop()
            await server.stop()
        await in_member.stop()

    clock = LoopClock()
    monkeypatch.setattr(WriterThread, "submit", write_at_once)
    run_virtually(scenario())


async def propagate(host: LocalClient, value: str, resolution: str) -> None:
    meta = {"namespace": "default", "name": "settings"}
    created = [
        (CLUSTERS, {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "apiEndpoint": "https://m1"}}),
        (CONFIG_MAPS, {"metadata": meta, "data": {"value": value}}),
        (
            POLICIES,
            {
                "metadata": meta,
                "spec": {
                    "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
                    "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
                    "conflictResolution": resolution,
                },
            },
        ),
    ]
    for resource, body in created:
        await host.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body}, manager="test")


async def applied_status(host: LocalClient) -> str:
    (work,) = [
        work
        for work in (await host.list(WORKS)).items
        if work["spec"]["workload"]["manifests"][0]["kind"] == "ConfigMap"
    ]
    (status,) = [c["status"] for c in work["status"]["conditions"] if c["type"] == "Applied"]
    return str(status)


def test_new_id_of_the_control_plane_concerns_every_work() -> None:
    """Also in a process that resumed from saved caches and reconciles only what has changed."""
    work = work_for()
    seen = view(cluster("m1"), RELEASED_COPY, work)
    assert [key.name for key in works_after_a_new_id(HOST, RELEASED_COPY, seen)] == [work.name]
    assert not list(works_after_a_new_id(HOST, HOST, seen))
    assert not list(works_after_a_new_id(None, RELEASED_COPY, seen)), "a start reconciles what it has to by itself"
    other = Namespace(metadata=Meta(name="other", uid="a"))
    assert not list(works_after_a_new_id(other, other.but(metadata=Meta(name="other", uid="b")), seen))
    assert not list(works_after_a_new_id(HOST, RELEASED_COPY, view(cluster("m1"), work, profile=UPSTREAM)))


def test_only_a_managed_object_with_another_id_is_foreign() -> None:
    there = object_in_member(work_for())
    foreign = owned_by(there, "other-id")
    unmanaged = well_known.with_metadata(foreign, labels={well_known.MANAGED: None}, annotations={})
    host = view(HOST)
    assert foreign_control_plane(foreign, host) == "other-id"
    assert foreign_control_plane(owned_by(there, "own-id"), host) == ""
    assert foreign_control_plane(unmanaged, host) == ""
    assert foreign_control_plane(None, host) == ""
    assert foreign_control_plane(foreign, view(HOST, profile=UPSTREAM)) == ""
