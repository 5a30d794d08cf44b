"""Objects that one controller wants and another one completes before they are created."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import NOON

from runtime.copier import SECRETS, Harness, new_controller, new_secret, run_scenario, run_scenario_over_tls
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.kinds.work import ResourceBinding, TargetCluster
from trimtab.api.value import Condition, Key, Meta
from trimtab.client.client import EVENTS, resource_of
from trimtab.controllers.contract import (
    CreateCompleted,
    Effect,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    ReserveCapacity,
    RunScript,
    Topic,
    View,
    WriteSequence,
    controller,
)
from trimtab.controllers.well_known import ref_of
from trimtab.errors import Conflict, Forbidden
from trimtab.interpret.lua.questions import Question
from trimtab.registry import Registry
from trimtab.runtime.cache import Cache
from trimtab.runtime.drafts import Drafts, with_creation, with_uid
from trimtab.server.local import LocalClient

BINDINGS = resource_of(kind_of(ResourceBinding))
NOTED: Topic[Ref, str] = Topic("noted")


def want(source: ConfigMap, view: View) -> Iterator[Effect]:
    """Wants a Secret for each ConfigMap, and notes on the ConfigMap that it is there."""
    if view.get(Secret, "default", source.name) is None:
        yield CreateCompleted(new_secret(source.name, "d2FudGVk"), by="completer")
    yield source.but(metadata=source.metadata.but(annotations={**source.metadata.annotations, "wanted": "yes"}))
    yield RecordEvent(Ref("v1", "ConfigMap", "default", source.name), "Wanted", "it is there", "copier")


def complete(secret: Secret, view: View) -> Iterator[Effect]:
    """Adds a value to each Secret that lacks it."""
    if "completed" not in (secret.data or {}):
        yield RememberInProcess(NOTED, ref_of(secret), "completed")
        yield secret.but(data={**(secret.data or {}), "completed": "eWVz"})
        yield RecordEvent(ref_of(secret), "Completed", "it was completed", "completer")


def completer(reconcile=complete, **more):
    registry = Registry("controller")
    controller(Secret, writes=["data"], registry=registry, name="completer", **more)(reconcile)
    return registry["completer"]


WANTER = new_controller(want, "Secret", "metadata.annotations")


async def is_wanted(harness: Harness, name: str = "a") -> bool:
    return (await harness.get_map(name))["metadata"].get("annotations", {}).get("wanted") == "yes"


async def create_completed(harness: Harness) -> None:
    await harness.create_map("a")
    await harness.until(lambda: is_wanted(harness))
    made = await harness.user.get(SECRETS, "default", "a")
    assert made["data"] == {"copy": "d2FudGVk", "completed": "eWVz"}

    async def is_recorded() -> bool:
        events = (await harness.user.list(EVENTS, "default")).items
        return {event["reason"] for event in events} == {"Wanted", "Completed"}

    await harness.until(is_recorded)
    events = {event["reason"]: event for event in (await harness.user.list(EVENTS, "default")).items}
    assert events["Completed"]["involvedObject"]["uid"] == made["metadata"]["uid"]
    note = harness.manager.state.memory.recall(NOTED, Ref("v1", "Secret", "default", "a", made["metadata"]["uid"]))
    assert note == "completed"


@pytest.mark.parametrize("batch", [1, 10])
def test_object_is_created_as_the_other_controller_completes_it(batch: int) -> None:
    writes: list[str] = []

    class CountingClient(LocalClient):
        async def create(self, resource, obj, **more):
            writes.append(f"create {resource.plural}")
            return await super().create(resource, obj, **more)

        async def patch(self, resource, namespace, name, patch, **more):
            if resource != EVENTS:  # a second reconcile repeats the event
                writes.append(f"patch {resource.plural}")
            return await super().patch(resource, namespace, name, patch, **more)

    def complete_batch(secrets, view):
        yield from ((secret, effect) for secret in secrets for effect in complete(secret, view))

    by = completer() if batch == 1 else completer(complete_batch, batch=batch)
    run_scenario(WANTER, create_completed, client=CountingClient, others=[by])
    assert writes == ["create secrets", "patch configmaps"]


def test_object_is_created_over_tls_too(tmp_path: Path) -> None:
    run_scenario_over_tls(WANTER, create_completed, tmp_path, others=[completer()])


def test_object_is_created_as_it_is_where_the_other_controller_does_not_run() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.until(lambda: is_wanted(harness))
        assert (await harness.user.get(SECRETS, "default", "a"))["data"] == {"copy": "d2FudGVk"}

    run_scenario(WANTER, scenario)


def test_object_that_the_other_controller_leaves_alone_is_created_as_it_is() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.until(lambda: is_wanted(harness))
        assert (await harness.user.get(SECRETS, "default", "a"))["data"] == {"copy": "d2FudGVk"}

    def leave_alone(_secret: Secret, _view: View) -> Iterator[Effect]:
        return iter(())

    run_scenario(WANTER, scenario, others=[completer(leave_alone)])


def test_refused_create_is_tried_again_by_who_wants_the_object() -> None:
    refused: list[str] = []

    class RefusingClient(LocalClient):
        async def create(self, resource, obj, **more):
            if resource == SECRETS and len(refused) < 3:
                refused.append(obj["metadata"]["name"])
                raise Forbidden("not yet")
            return await super().create(resource, obj, **more)

    run_scenario(WANTER, create_completed, client=RefusingClient, others=[completer()])
    assert refused == ["a", "a", "a"]


def test_failure_of_the_other_controller_delays_only_its_own_object() -> None:
    failures: list[str] = []

    def fail_twice(secret: Secret, view: View) -> Iterator[Effect]:
        if secret.name == "a" and len(failures) < 2:
            failures.append(secret.name)
            raise ValueError("a bug")
        yield from complete(secret, view)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.create_map("b")
        await harness.until(lambda: is_wanted(harness, "b"))
        await harness.until(lambda: is_wanted(harness))
        assert "completed" in (await harness.user.get(SECRETS, "default", "a"))["data"]

    run_scenario(WANTER, scenario, others=[completer(fail_twice)])
    assert failures == ["a", "a"]


def test_object_that_somebody_else_creates_first_is_kept() -> None:
    class LateClient(LocalClient):
        async def create(self, resource, obj, **more):
            if resource == SECRETS:
                theirs = {**obj, "data": {"theirs": "eWVz"}}
                await super().create(resource, theirs, **more)
            return await super().create(resource, obj, **more)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.until(lambda: is_wanted(harness))

        async def is_completed() -> bool:
            return "completed" in (await harness.user.get(SECRETS, "default", "a"))["data"]

        await harness.until(is_completed)
        assert (await harness.user.get(SECRETS, "default", "a"))["data"] == {"theirs": "eWVz", "completed": "eWVz"}

    run_scenario(WANTER, scenario, client=LateClient, others=[completer()])


def test_status_of_a_completed_object_is_part_of_the_create_or_follows_it(tmp_path: Path) -> None:
    def want_binding(source: ConfigMap, view: View) -> Iterator[Effect]:
        if view.get(ResourceBinding, "default", source.name) is None:
            yield CreateCompleted(ResourceBinding(metadata=Meta(name=source.name, namespace="default")), by="completer")

    def place(binding: ResourceBinding, view: View) -> Iterator[Effect]:
        if not binding.spec.clusters:
            placed = binding.but(spec=binding.spec.but(clusters=(TargetCluster(name="m1", replicas=1),)))
            done = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
            yield placed.but(status=placed.status.but(conditions=(done,), scheduler_observed_generation=1))

    registry = Registry("controller")
    controller(ResourceBinding, writes=["spec.clusters", "status"], registry=registry, name="completer")(place)
    wanter = new_controller(want_binding, "ResourceBinding")

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")

        async def is_placed() -> bool:
            items = (await harness.user.list(BINDINGS, "default")).items
            return bool(items) and bool(items[0].get("status"))

        await harness.until(is_placed)
        made = await harness.user.get(BINDINGS, "default", "a")
        assert made["spec"]["clusters"] == [{"name": "m1", "replicas": 1}]
        assert made["status"]["conditions"][0]["type"] == "Scheduled"
        assert made["status"]["schedulerObservedGeneration"] == made["metadata"]["generation"] == 1

    class InterferingClient(LocalClient):
        """Takes the status in a second request, before which somebody else writes the object."""

        takes_status = False

        async def create(self, resource, obj, **more):
            created = await super().create(resource, obj, **more)
            if resource == BINDINGS:
                await super().patch(resource, "default", "a", {"metadata": {"annotations": {"theirs": "yes"}}})
            return created

    run_scenario(wanter, scenario, others=[registry["completer"]])
    run_scenario(wanter, scenario, client=InterferingClient, others=[registry["completer"]])
    run_scenario_over_tls(wanter, scenario, tmp_path, others=[registry["completer"]])


def test_only_one_draft_of_an_object_is_created_at_a_time() -> None:
    async def run() -> None:
        drafts, queued = Drafts(Cache(LocalClient.__new__(LocalClient))), []
        queue, secret, key = drafts.queue_of("completer"), new_secret("a", "eA=="), Key("secrets", "default", "a")
        assert not await queue.create(secret), "the controller does not run here"
        queue.open(queued.append)
        first = asyncio.ensure_future(queue.create(secret))
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="another draft"):
            await asyncio.wait_for(queue.create(secret), timeout=5)
        assert queued == [key]
        assert queue.find(key) is not None
        assert drafts.queue_of("another").find(key) is None
        queue.end(key)
        with pytest.raises(Conflict, match="was not created"):
            await first
        assert queue.find(key) is None

    asyncio.run(run())


def test_other_controllers_of_the_object_do_not_end_its_draft() -> None:
    """They reconcile it as soon as it exists, which may be before its status is written."""
    reconciled = asyncio.Event()

    class SlowClient(LocalClient):
        """Takes the status in a second request, which waits until the other controller has reconciled the object."""

        takes_status = False

        async def patch(self, resource, namespace, name, patch, **more):
            if more.get("subresource") == "status":
                await reconciled.wait()
            return await super().patch(resource, namespace, name, patch, **more)

    def want_binding(source: ConfigMap, view: View) -> Iterator[Effect]:
        if view.get(ResourceBinding, "default", source.name) is None:
            yield CreateCompleted(ResourceBinding(metadata=Meta(name=source.name, namespace="default")), by="completer")
            yield RecordEvent(Ref("v1", "ConfigMap", "default", source.name), "Wanted", "it is there", "copier")

    def place(binding: ResourceBinding, view: View) -> Iterator[Effect]:
        if not binding.status.scheduler_observed_generation:
            yield binding.but(status=binding.status.but(scheduler_observed_generation=1))

    def look(binding: ResourceBinding, view: View) -> Iterator[Effect]:
        reconciled.set()
        return iter(())

    registry = Registry("controller")
    controller(ResourceBinding, writes=["status"], registry=registry, name="completer")(place)
    controller(ResourceBinding, writes=[], registry=registry, name="other")(look)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")

        async def is_recorded() -> bool:
            return bool((await harness.user.list(EVENTS, "default")).items)

        await harness.until(is_recorded)

    others = [registry["completer"], registry["other"]]
    run_scenario(new_controller(want_binding, "ResourceBinding"), scenario, client=SlowClient, others=others)


def test_create_comes_before_what_refers_to_the_object_and_after_reserved_capacity() -> None:
    secret = new_secret("a", "eA==")
    draft = type("Draft", (), {"wanted": secret})
    reserve, memory = ReserveCapacity(None, ()), RememberInProcess(NOTED, ref_of(secret), "x")
    event = RecordEvent(ref_of(secret), "Completed", "", "completer")
    changed = secret.but(data={"copy": "eQ=="})
    ordered = with_creation([memory, reserve, changed, event], draft)
    assert ordered == [reserve, WriteSequence((changed,)), memory, event]
    assert with_creation([], draft) == [WriteSequence((secret,))]
    question = RunScript(Question.__new__(Question))
    assert with_creation([question], draft) == [question], "it is reconciled again when the answer is there"


def test_references_to_the_created_object_get_its_uid() -> None:
    secret = new_secret("a", "eA==")
    draft = type("Draft", (), {"wanted": secret})
    other = RecordEvent(Ref("v1", "ConfigMap", "default", "a"), "Wanted", "", "copier")
    found = list(
        with_uid(
            [RecordEvent(ref_of(secret), "Completed", "", "completer"), other, RequeueAfter(1.0)],
            draft,
            "uid-1",
        )
    )
    assert found[0].about.uid == "uid-1"
    assert found[1:] == [other, RequeueAfter(1.0)]
