"""Effects are carried out in order, without unnecessary writes, and despite conflicts."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from builders import NOON

from runtime.copier import COPIER, MAPS, SECRETS, SEEN, Harness, new_controller, new_secret, run_scenario, source_of
from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.kinds.ocm_placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.kinds.work import ResourceBinding, TargetCluster
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Condition, Key, Meta, Raw
from trimtab.client.client import EVENTS, Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import (
    CheckAccess,
    Controller,
    Delete,
    Effect,
    Ensure,
    Fetch,
    InCluster,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    WriteSequence,
    controller,
)
from trimtab.errors import NotFound
from trimtab.registry import Registry
from trimtab.runtime.cache import Cache
from trimtab.runtime.effects.executor import EffectExecutor
from trimtab.runtime.effects.member_effects import MemberFault
from trimtab.runtime.view import ControlPlaneState
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

BINDINGS = resource_of(kind_of(ResourceBinding))
HEAD = {
    "apiVersion": "work.karmada.io/v1alpha2",
    "kind": "ResourceBinding",
    "metadata": {"name": "b", "namespace": "default"},
}
SECRET = {"apiVersion": "v1", "kind": "Secret"}


def test_object_that_is_as_wanted_is_not_written() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a", text="Zmlyc3Q=")
        await asyncio.sleep(5)
        (reconciler,) = harness.manager.reconcilers
        writes_before = reconciler.writes
        harness.manager.enqueue_all("copier")
        await asyncio.sleep(5)
        assert (reconciler.writes, writes_before) == (2, 2)
        assert harness.manager.is_idle

    run_scenario(COPIER, scenario)


class RacingClient(LocalClient):
    """Another client writes just before each of the first three patches."""

    left = 3

    async def patch(self, resource, namespace, name, patch, **more):
        if self.left and resource == MAPS:
            self.left -= 1
            await super().patch(resource, namespace, name, {"data": {"raced": str(self.left)}})
        return await super().patch(resource, namespace, name, patch, **more)


def test_conflict_is_retried_and_keeps_the_write_of_the_other_client() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a", text="Zmlyc3Q=")
        await asyncio.sleep(5)
        found = await harness.get_map("a")
        assert found["metadata"]["annotations"] == {"copied": "Zmlyc3Q="}
        assert found["data"] == {"text": "Zmlyc3Q=", "raced": "0"}

    run_scenario(COPIER, scenario, RacingClient)


def test_undeclared_write_is_rejected_and_other_keys_continue(caplog) -> None:
    def write_undeclared(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "b":
            yield RememberInProcess(SEEN, source.name, value=True)
        elif source.name == "a":
            yield source.but(data={"taken": "over"})

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a", text="mine")
        await harness.create_map("b")
        await asyncio.sleep(2)
        assert (await harness.get_map("a"))["data"] == {"text": "mine"}
        assert harness.manager.state.memory.recall(SEEN, "b")

    run_scenario(new_controller(write_undeclared, "metadata.labels"), scenario)
    assert "UndeclaredWrite: ConfigMap.data." in caplog.text


@pytest.mark.parametrize("with_write", [False, True])
def test_what_was_remembered_for_an_object_is_forgotten_when_it_is_deleted(with_write: bool) -> None:
    by_uid: Topic[tuple[str, str], bool] = Topic("by uid")
    last: Topic[None, str] = Topic("last", shared=True)

    def remember(source: ConfigMap, view: View) -> Iterator[Effect]:
        if with_write and "seen" not in source.metadata.labels:
            yield source.but(metadata=source.metadata.but(labels={"seen": "true"}))
        yield RememberInProcess(SEEN, source.name, value=True)
        yield RememberInProcess(by_uid, ("cluster", source.metadata.uid), value=True)
        yield RememberInProcess(last, None, value=source.name)

    async def scenario(harness: Harness) -> None:
        for name in ("a", "b"):
            await harness.create_map(name)
        await asyncio.sleep(2)
        memory = harness.manager.state.memory
        size = len(memory)
        await harness.user.delete(MAPS, "default", "b")
        await asyncio.sleep(2)
        assert memory.recall(SEEN, "a")
        assert memory.recall(SEEN, "b") is None
        assert memory.recall(last, None) == "b", "it concerns all objects"
        assert len(memory) == size - 2

    run_scenario(new_controller(remember, "metadata.labels"), scenario)


def test_what_is_remembered_after_the_deletion_is_not_kept() -> None:
    class SlowClient(LocalClient):
        """Deletes the object while its label is being written."""

        async def patch(self, resource, namespace, name, patch, **more):
            found = await super().patch(resource, namespace, name, patch, **more)
            if resource == MAPS and name == "a":
                await self.delete(MAPS, namespace, name)
                await asyncio.sleep(2)
            return found

    def remember(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "a" and "seen" not in source.metadata.labels:
            yield source.but(metadata=source.metadata.but(labels={"seen": "true"}))
            yield RememberInProcess(SEEN, source.name, value=True)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(10)
        assert harness.manager.state.memory.recall(SEEN, "a") is None

    run_scenario(new_controller(remember, "metadata.labels"), scenario, SlowClient)


def test_repeated_event_is_counted_and_not_recorded_twice() -> None:
    def record(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "a":
            about = Ref("v1", "ConfigMap", "default", "a", source.metadata.uid)
            yield RecordEvent(about, "Seen", "the map was looked at", "copier", "Warning")
            yield RequeueAfter(10)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(35)
        (event,) = (await harness.user.list(EVENTS, "default")).items
        assert (event["reason"], event["count"], event["type"]) == ("Seen", 4, "Warning")
        assert event["involvedObject"]["name"] == "a"

    run_scenario(new_controller(record, "status"), scenario)


def place_binding(binding: ResourceBinding, _: View) -> Iterator[Effect]:
    """Sets clusters and the Scheduled condition at once."""
    if not binding.spec.clusters:
        spec = binding.spec.but(clusters=(TargetCluster(name="m1"),))
        condition = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
        yield binding.but(spec=spec, status=binding.status.but(conditions=(condition,)))


def new_placer() -> Controller:
    registry: Registry[Controller] = Registry("controller")
    controller(ResourceBinding, writes=["spec.clusters", "status"], registry=registry, name="placer")(place_binding)
    return registry["placer"]


async def watched_states(harness: Harness) -> list[tuple[int, int, int]]:
    """Generation, number of clusters and number of conditions of a binding, as a watch delivers them."""
    created = await harness.user.create(
        BINDINGS, {**HEAD, "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}}
    )
    seen: list[tuple[int, int, int]] = []
    async with asyncio.timeout(30):
        async for changes in harness.user.watch(BINDINGS, "default", revision=created["metadata"]["resourceVersion"]):
            for obj in (change.object for change in changes):
                conditions = (obj.get("status") or {}).get("conditions") or ()
                seen.append((obj["metadata"]["generation"], len(obj["spec"].get("clusters", ())), len(conditions)))
            if seen[-1][1:] == (1, 1):
                return seen
    raise AssertionError(seen)


def test_object_and_status_are_written_in_one_request_to_the_embedded_server() -> None:
    async def scenario(harness: Harness) -> None:
        assert await watched_states(harness) == [(2, 1, 1)]

    run_scenario(new_placer(), scenario)


class InterferingClient(LocalClient):
    """Takes no status with an object, like other API servers; another client writes before the status."""

    takes_status = False

    async def patch(self, resource, namespace, name, patch, **more):
        if more.get("subresource"):
            await super().patch(resource, namespace, name, {"metadata": {"labels": {"by": "somebody"}}})
        return await super().patch(resource, namespace, name, patch, **more)


def test_status_follows_on_other_servers_despite_a_write_in_between() -> None:
    async def scenario(harness: Harness) -> None:
        assert await watched_states(harness) == [(2, 1, 0), (2, 1, 0), (2, 1, 1)]
        found = await harness.user.get(BINDINGS, "default", "b")
        assert found["metadata"]["labels"] == {"by": "somebody"}

    run_scenario(new_placer(), scenario, InterferingClient)


def place_in_two_steps(binding: ResourceBinding, _: View) -> Iterator[Effect]:
    """Sets a condition first, then clusters."""
    if not binding.spec.clusters:
        condition = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
        announced = binding.but(status=binding.status.but(conditions=(condition,)))
        yield WriteSequence((announced, announced.but(spec=binding.spec.but(clusters=(TargetCluster(name="m1"),)))))


class TakesNoStatus(LocalClient):
    """Takes no status with an object, like other API servers."""

    takes_status = False


@pytest.mark.parametrize(("client", "states"), [(LocalClient, [(2, 1, 1)]), (TakesNoStatus, [(1, 0, 1), (2, 1, 1)])])
def test_write_sequence_is_one_write_where_the_server_takes_spec_and_status_together(client, states) -> None:
    async def scenario(harness: Harness) -> None:
        assert await watched_states(harness) == states

    registry: Registry[Controller] = Registry("controller")
    controller(ResourceBinding, writes=["spec.clusters", "status"], registry=registry, name="placer")(
        place_in_two_steps
    )
    run_scenario(registry["placer"], scenario, client)


DECISIONS = resource_of(kind_of(PlacementDecision))
MOVES = resource_of(kind_of(Move))


def log_move_and_decision(source: ConfigMap, view: View) -> Iterator[Effect]:
    """Creates an object of ours and one of a peer, both with a status."""
    metadata = Meta(name=source.name, namespace="default")
    if view.get(Move, "default", source.name) is None:
        about = MovedObject(api_version="v1", kind="ConfigMap", namespace="default", name=source.name)
        spec = MoveSpec(object=about, cause="Drain", by="test", from_="m1", replicas=1)
        yield Move(metadata=metadata, spec=spec, status=MoveStatus(started=NOON))
    if view.get(PlacementDecision, "default", source.name) is None:
        decided = (ClusterDecision(cluster_name="m1"),)
        yield PlacementDecision(metadata=metadata, status=PlacementDecisionStatus(decisions=decided))


@pytest.mark.parametrize(("client", "writes"), [(LocalClient, 3), (TakesNoStatus, 4)])
def test_only_own_kinds_are_created_with_their_status_and_only_where_the_server_takes_it(client, writes: int) -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(5)
        move, decision = [await harness.user.get(one, "default", "a") for one in (MOVES, DECISIONS)]
        assert move["status"]["started"]
        assert decision["status"]["decisions"][0]["clusterName"] == "m1"
        revisions = [int(one["metadata"]["resourceVersion"]) for one in (move, decision)]
        assert revisions[1] - int((await harness.get_map("a"))["metadata"]["resourceVersion"]) == writes

    declared = new_controller(log_move_and_decision, "Move", "PlacementDecision")
    run_scenario(declared, scenario, client)


class CountingClient(LocalClient):
    """Records the names of created objects per request."""

    steps: list[list[str]] = []

    async def create(self, resource, obj, **more):
        self.steps.append([obj["metadata"]["name"]])
        return await super().create(resource, obj, **more)

    async def create_together(self, resource, objects, **more):
        self.steps.append([obj["metadata"]["name"] for obj in objects])
        return await super().create_together(resource, objects, **more)


def create_three(source: ConfigMap, view: View) -> Iterator[Effect]:
    """Creates three Secrets once, then records that all exist, or the fault."""
    if view.fault is not None:
        yield RecordEvent(Ref("v1", "ConfigMap", "default", source.name), "Failed", view.fault.message, "us")
        yield RequeueAfter(3600)
        return
    if view.get(Secret, "default", f"{source.name}0") is None:
        yield from (new_secret(f"{source.name}{number}", "") for number in range(3))
    yield RecordEvent(Ref("v1", "ConfigMap", "default", source.name), "Complete", "all are there", "us")


async def event_messages(harness: Harness) -> list[str]:
    await harness.until(lambda: _has_events(harness))
    return [event["message"] for event in (await harness.user.list(EVENTS, "default")).items]


async def _has_events(harness: Harness) -> bool:
    return bool((await harness.user.list(EVENTS, "default")).items)


def test_new_objects_of_one_kind_are_created_in_one_request() -> None:
    CountingClient.steps = []

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        assert await event_messages(harness) == ["all are there"]
        assert CountingClient.steps == [["a0", "a1", "a2"]]
        created = [one["metadata"] for one in (await harness.user.list(SECRETS, "default")).items]
        assert [one["name"] for one in created] == ["a0", "a1", "a2"]
        assert [reconciler.writes for reconciler in harness.manager.reconcilers] == [3]

    run_scenario(new_controller(create_three, "Secret"), scenario, CountingClient)


def create_around_a_change(source: ConfigMap, view: View) -> Iterator[Effect]:
    """Creates two Secrets before and two after the change of one that exists, once."""
    old = view.get(Secret, "default", "old")
    if old is None or old.data:
        return
    yield from (new_secret(f"{source.name}{number}", "") for number in range(2))
    yield old.but(data={"text": "bmV3"})
    yield from (new_secret(f"{source.name}{number}", "") for number in range(2, 4))
    yield RecordEvent(Ref("v1", "ConfigMap", "default", source.name), "Complete", "all are there", "us")


def test_a_change_between_new_objects_of_its_kind_is_written_between_them() -> None:
    CountingClient.steps = []

    async def scenario(harness: Harness) -> None:
        await harness.user.create(SECRETS, {**SECRET, "metadata": {"name": "old", "namespace": "default"}})
        await asyncio.sleep(1)
        await harness.create_map("a")
        assert await event_messages(harness) == ["all are there"]
        assert CountingClient.steps == [["a0", "a1"], ["a2", "a3"]]
        written = [one["metadata"] for one in (await harness.user.list(SECRETS, "default")).items]
        assert sorted(written, key=lambda one: int(one["resourceVersion"]))[2]["name"] == "old"

    watched = Trigger(Secret, lambda *_: ())
    run_scenario(new_controller(create_around_a_change, "Secret", wakes=[watched]), scenario, CountingClient)


def test_objects_before_a_rejected_one_are_created_and_those_after_it_are_not() -> None:
    CountingClient.steps = []

    async def scenario(harness: Harness) -> None:
        await harness.user.create(SECRETS, {**SECRET, "metadata": {"name": "a1", "namespace": "default"}})
        await harness.create_map("a")
        assert await event_messages(harness) == ['secrets "a1" already exists']
        assert CountingClient.steps == [["a0", "a1", "a2"], ["a0"], ["a1"]]
        assert [one["metadata"]["name"] for one in (await harness.user.list(SECRETS, "default")).items] == ["a0", "a1"]

    run_scenario(new_controller(create_three, "Secret"), scenario, CountingClient)


class FakeMember:
    """A member whose cache is a plain dictionary."""

    def __init__(self, client: LocalClient) -> None:
        self.client = client
        self.cached: dict[str, Raw | None] = {}

    def get_cached(self, ref: Ref) -> Raw | None:
        return self.cached.get(ref.name)

    async def resource(self, api_version: str, kind: str) -> Resource:
        if kind != "ConfigMap":
            raise NotFound(f"no {kind} here")
        return MAPS

    async def is_listed(self, resource: Resource, namespace: str, name: str) -> bool:
        return False

    def put_cached(self, resource: Resource, namespace: str, name: str, raw: Raw | None) -> None:
        self.cached[name] = raw


class OneMember:
    """A fleet with the member m1."""

    def __init__(self, member: FakeMember) -> None:
        self.member = member

    def get(self, cluster: str) -> FakeMember | None:
        return self.member if cluster == "m1" else None


class MemberRun:
    """Carries out one effect in a fleet of one member, in which ConfigMaps with these names exist."""

    def __init__(
        self,
        effect: Effect,
        *existing: str,
        client: type[LocalClient] = LocalClient,
        is_changed_by_another: bool = False,
    ) -> None:
        self.requeued: list[Key] = []
        self.fault: MemberFault | None = None
        self._is_changed_by_another = is_changed_by_another
        run_virtually(self._run(effect, existing, client))

    async def _run(self, effect: Effect, existing: tuple[str, ...], client: type[LocalClient]) -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        self.member = FakeMember(client(server))
        for name in existing:
            created = await LocalClient(server).create(MAPS, new_map(name))
            if self._is_changed_by_another:
                self.member.cached[name] = created
                await LocalClient(server).patch(MAPS, "default", name, {"data": {"k": "of another process"}})
        cache = Cache(LocalClient(server))
        state = ControlPlaneState(
            cache=cache,
            clock=LoopClock(),
            profile=TRIMTAB,
            members=OneMember(self.member),
            writes_exact_versions=self._is_changed_by_another,
        )
        try:
            await EffectExecutor(COPIER, state, self.requeued.append).execute_all(KEY, [effect])
        except MemberFault as fault:
            self.fault = fault
        await cache.close()
        await server.stop()


KEY = Key(kind_of(ConfigMap).id, "default", "subject")
REF = Ref("v1", "ConfigMap", "default", "a")


def new_map(name: str, **data: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}, "data": data}


def test_object_written_in_a_member_is_cached_at_once() -> None:
    run = MemberRun(InCluster("m1", Ensure(new_map("a", k="v"))))
    written = run.member.cached["a"]
    assert written is not None
    assert written["data"] == {"k": "v"}
    assert (run.fault, run.requeued) == (None, [])


class UnchangedClient(LocalClient):
    """A server that makes nothing of what it is sent."""

    async def replace(self, resource: Resource, body: Raw, **_: Any) -> Raw:
        return body


def test_write_that_changes_nothing_in_a_member_is_checked_again() -> None:
    seen = new_map("a") | {"metadata": {**new_map("a")["metadata"], "resourceVersion": "7"}}
    write = Ensure(seen, seen=seen, replace=True, recheck_if_unchanged=True)
    assert MemberRun(InCluster("m1", write), client=UnchangedClient).requeued == [KEY]
    once = write._replace(recheck_if_unchanged=False)
    assert MemberRun(InCluster("m1", once), client=UnchangedClient).requeued == []
    older = seen | {"metadata": {**seen["metadata"], "resourceVersion": "6"}}
    assert MemberRun(InCluster("m1", write._replace(seen=older)), client=UnchangedClient).requeued == []


def test_existing_member_object_is_cached_so_that_the_next_reconcile_sees_it() -> None:
    run = MemberRun(InCluster("m1", Ensure(new_map("a"))), "a")
    assert run.fault is not None
    assert (run.fault.cluster, run.fault.fault.reason) == ("m1", "AlreadyExists")
    assert run.member.cached["a"] is not None


def test_deletion_of_a_missing_member_object_is_no_fault() -> None:
    run = MemberRun(InCluster("m1", Delete(REF)))
    assert (run.fault, run.member.cached) == (None, {"a": None})


def test_member_object_that_another_process_changed_is_not_deleted() -> None:
    run = MemberRun(InCluster("m1", Delete(REF)), "a", is_changed_by_another=True)
    assert run.fault is not None
    assert run.fault.fault.reason == "Conflict"
    seen_now = run.member.cached["a"]
    assert seen_now is not None
    assert seen_now["data"] == {"k": "of another process"}


def test_server_side_apply_does_not_change_what_another_process_changed() -> None:
    seen = new_map("a") | {"metadata": {**new_map("a")["metadata"], "resourceVersion": "1"}}
    apply = Ensure(new_map("a", k="stale"), seen=seen, apply_as="work-agent", force=True)
    run = MemberRun(InCluster("m1", apply), "a", is_changed_by_another=True)
    assert run.fault is not None
    assert run.fault.fault.reason == "Conflict"
    seen_now = run.member.cached["a"]
    assert seen_now is not None
    assert seen_now["data"] == {"k": "of another process"}


@pytest.mark.parametrize("exists", [True, False])
def test_fetched_object_is_cached_and_its_key_is_queued_again(exists: bool) -> None:
    run = MemberRun(Fetch("m1", REF), *(["a"] if exists else []))
    assert (run.member.cached["a"] is not None) is exists
    assert run.requeued == [KEY]


@pytest.mark.parametrize(
    "effect", [Fetch("m2", REF), InCluster("m2", Delete(REF)), CheckAccess("m2", "u", REF, ("get",))]
)
def test_effect_in_a_cluster_that_is_not_joined_is_a_fault_of_that_cluster(effect: Effect) -> None:
    run = MemberRun(effect)
    assert run.fault is not None
    assert (run.fault.cluster, run.fault.fault.message) == ("m2", "cluster m2 is not joined")


class UnreachableClient(LocalClient):
    async def get(self, *arguments: Any) -> Raw:
        raise ConnectionResetError("connection reset")


def test_connection_failure_is_a_fault_of_the_member() -> None:
    run = MemberRun(Fetch("m1", REF), client=UnreachableClient)
    assert run.fault is not None
    assert (run.fault.cluster, run.fault.fault.message) == ("m1", "connection reset")


def test_reconcile_of_an_old_version_does_not_undo_a_write_made_since() -> None:
    """The cache has the newer version already when the effects of the older one are carried out."""
    wrote: list[str] = []

    def rename(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "a" and source.metadata.labels.get("step") != "done":
            wrote.append(source.metadata.resource_version)
            yield RememberInProcess(SEEN, "a", value=True)
            yield Ensure({**SECRET, "metadata": {"name": f"s{len(wrote)}", "namespace": "default"}})
            yield source.but(metadata=source.metadata.but(labels={**source.metadata.labels, "step": "done"}))

    class WritesMeanwhile(LocalClient):
        """Another client labels the ConfigMap while the first effect of the reconcile is carried out."""

        async def create(self, resource, obj, **more):
            created = await super().create(resource, obj, **more)
            if resource == SECRETS and obj["metadata"]["name"] == "s1":
                await super().patch(MAPS, "default", "a", {"metadata": {"labels": {"owner": "alice"}}})
                await asyncio.sleep(1)  # the watch event reaches the cache
            return created

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(5)
        assert (await harness.get_map("a"))["metadata"]["labels"] == {"owner": "alice", "step": "done"}
        assert len(wrote) == 2

    run_scenario(new_controller(rename, "ConfigMap", "Secret"), scenario, WritesMeanwhile)


def test_begun_write_does_not_overwrite_a_field_that_another_client_changed_meanwhile() -> None:
    class SameField(LocalClient):
        """Takes no status with an object; another client writes the same condition before the status."""

        takes_status = False
        left = 1

        async def patch(self, resource, namespace, name, patch, **more):
            if more.get("subresource") and self.left:
                self.left -= 1
                other = {
                    "type": "Scheduled",
                    "status": "False",
                    "reason": "Other",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                body = {"status": {"conditions": [{**other, "message": ""}]}}
                await super().patch(resource, namespace, name, body, subresource="status")
            return await super().patch(resource, namespace, name, patch, **more)

    async def scenario(harness: Harness) -> None:
        spec = {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}
        await harness.user.create(BINDINGS, {**HEAD, "spec": spec})
        await asyncio.sleep(10)
        found = await harness.user.get(BINDINGS, "default", "b")
        assert [one["reason"] for one in found["status"]["conditions"]] == ["Other"]

    run_scenario(new_placer(), scenario, SameField)


def test_deletion_names_the_uid_so_that_a_new_object_of_the_same_name_stays() -> None:
    seen: list[str] = []

    class Recreates(LocalClient):
        """Somebody deletes the Secret and creates another one just before the deletion."""

        async def delete(self, resource, namespace, name, **more):
            if resource == SECRETS and not seen:
                seen.append(more.get("uid", ""))
                await super().delete(resource, namespace, name)
                await super().create(SECRETS, {**SECRET, "metadata": {"name": name, "namespace": namespace}})
            return await super().delete(resource, namespace, name, **more)

    def remove(source: ConfigMap, view: View) -> Iterator[Effect]:
        existing = view.get(Secret, "default", source.name)
        if existing is not None and not seen:
            yield Delete(existing)

    async def scenario(harness: Harness) -> None:
        first = await harness.user.create(SECRETS, {**SECRET, "metadata": {"name": "a", "namespace": "default"}})
        await harness.create_map("a")
        await asyncio.sleep(10)
        (found,) = (await harness.user.list(SECRETS, "default")).items
        assert seen == [first["metadata"]["uid"]]
        assert found["metadata"]["uid"] != seen[0]

    run_scenario(new_controller(remove, "Secret", wakes=[Trigger(Secret, source_of)]), scenario, Recreates)
