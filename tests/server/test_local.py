"""The in-process client on the virtual event loop, as controllers use it."""

import asyncio
import threading
from typing import Any

import orjson
import pytest

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import AlreadyExists, Conflict, Invalid, NotFound
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import SYSTEM
from trimtab.server.local import LocalClient
from trimtab.server.registry import patch_requests
from trimtab.server.registry.object_schema import ObjectSchema
from trimtab.server.request.messages import Request, Response
from trimtab.store.store import Store

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def run_with_client(scenario, *plugins):
    """Run `scenario(client)` against a new server in virtual time."""

    async def run():
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock(), plugins=plugins))
        await server.start()
        client: Client = LocalClient(server)
        try:
            return await scenario(client)
        finally:
            await server.stop()

    return run_virtually(run())


def test_created_object_can_be_read_and_listed() -> None:
    async def scenario(client):
        made = await client.create(CONFIG_MAPS, config_map("a", k="v"))
        assert (await client.get(CONFIG_MAPS, "default", "a")) == made
        listing = await client.list(CONFIG_MAPS, "default")
        assert [item["metadata"]["name"] for item in listing.items] == ["a"]
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("a"))

    run_with_client(scenario)


def test_replace_with_stale_resource_version_conflicts() -> None:
    async def scenario(client):
        first = await client.create(CONFIG_MAPS, config_map("a", k="1"))
        await client.replace(CONFIG_MAPS, {**first, "data": {"k": "2"}})
        with pytest.raises(Conflict):
            await client.replace(CONFIG_MAPS, {**first, "data": {"k": "3"}})

    run_with_client(scenario)


def test_watch_delivers_every_change_once_and_in_order() -> None:
    async def scenario(client):
        start = (await client.list(CONFIG_MAPS)).revision
        await client.create(CONFIG_MAPS, config_map("a", k="1"))
        await client.patch(CONFIG_MAPS, "default", "a", {"data": {"k": "2"}})
        await client.delete(CONFIG_MAPS, "default", "a")
        seen = []
        async for changes in client.watch(CONFIG_MAPS, revision=start):
            seen += [(change.type, change.object["data"]["k"]) for change in changes]
            if len(seen) == 3:
                break
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    run_with_client(scenario)


def test_object_is_deleted_after_its_owner() -> None:
    async def scenario(client):
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        child = config_map("child")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        child["metadata"]["ownerReferences"] = [reference]
        await client.create(CONFIG_MAPS, child)
        await client.delete(CONFIG_MAPS, "default", "owner")
        await asyncio.sleep(1)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "default", "child")

    run_with_client(scenario)


def test_orphan_propagation_keeps_dependents() -> None:
    async def scenario(client):
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        child = config_map("child")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        child["metadata"]["ownerReferences"] = [reference]
        await client.create(CONFIG_MAPS, child)
        await client.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
        await asyncio.sleep(1)
        assert "ownerReferences" not in (await client.get(CONFIG_MAPS, "default", "child"))["metadata"]
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "default", "owner")

    run_with_client(scenario)


def test_deleting_a_namespace_deletes_its_objects() -> None:
    async def scenario(client):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
        inside = config_map("a")
        inside["metadata"]["namespace"] = "x"
        await client.create(CONFIG_MAPS, inside)
        await client.delete(NAMESPACES, "", "x")
        await asyncio.sleep(1)
        assert (await client.list(CONFIG_MAPS, "x")).items == []
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "", "x")

    run_with_client(scenario)


def test_deleting_a_scheduled_pod_starts_its_grace_period() -> None:
    async def scenario(client):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "nginx"}], "nodeName": "n1"},
        }
        await client.create(PODS, pod)
        await client.delete(PODS, "default", "p")
        ending = await client.get(PODS, "default", "p")
        assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
        await client.delete(PODS, "default", "p", grace_seconds=0)
        with pytest.raises(NotFound):
            await client.get(PODS, "default", "p")

    run_with_client(scenario)


def test_second_binding_of_a_pod_conflicts() -> None:
    async def scenario(client):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        }
        await client.create(PODS, pod)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n1"}}
        await client.submit(PODS, "default", "p", "binding", binding)
        assert (await client.get(PODS, "default", "p"))["spec"]["nodeName"] == "n1"
        with pytest.raises(Conflict):
            await client.submit(PODS, "default", "p", "binding", binding)

    run_with_client(scenario)


def test_a_binding_in_the_process_writes_what_a_request_writes() -> None:
    async def run():
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client, answers, pods = LocalClient(server), [], []
        for name in ("p", "q"):
            metadata = {"name": name, "namespace": "default"}
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
            await client.create(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
            if name == "p":
                answers.append(await client.submit(PODS, "default", name, "binding", binding))
            else:
                body = orjson.dumps({"apiVersion": "v1", "kind": "Binding", **binding})
                path, headers = f"/api/v1/namespaces/default/pods/{name}/binding", {"content-type": "application/json"}
                request = Request("POST", path, {}, headers, body=body, certificate_user=SYSTEM)
                answers.append(orjson.loads((await server.handler.handle(request)).body))
            pod = await client.get(PODS, "default", name)
            pods.append({**pod, "metadata": {**pod["metadata"], "name": "", "uid": "", "resourceVersion": ""}})
        assert pods[0] == pods[1]
        assert answers[0] == answers[1]
        with pytest.raises(Invalid):
            await client.submit(PODS, "default", "p", "binding", {"target": {}})
        with pytest.raises(NotFound):
            await client.submit(PODS, "default", "nobody", "binding", {"target": {"name": "n1"}})
        await server.stop()

    run_virtually(run())


def test_resources_lists_every_declared_kind() -> None:
    async def scenario(client):
        found = {resource.id: resource for resource in await client.resources()}
        assert found["deployments.apps"].verbs[0] == "create"
        assert found["resourcebindings.work.karmada.io"].version == "v1alpha2"
        assert (await client.fetch("/readyz")).body == b"ok"
        assert (await client.fetch("/nothing")).code == 404

    run_with_client(scenario)


def test_discovery_is_computed_again_only_after_a_change() -> None:
    async def scenario(client):
        first = await client.resources()
        assert await client.resources() is first
        client._server.catalogue.remove("apps", "deployments")
        assert "deployments.apps" not in {resource.id for resource in await client.resources()}

    run_with_client(scenario)


def test_returned_objects_are_not_changed_by_later_writes() -> None:
    """A write starts from the decoded object of the last write, which watchers share."""

    async def scenario(client):
        made = await client.create(CONFIG_MAPS, config_map("a", k="0", l="0"))
        returned = [(made, orjson.dumps(made))]
        for patch, kind in (
            ({"data": {"k": "1"}}, "merge"),
            ([{"op": "replace", "path": "/data/k", "value": "2"}, {"op": "remove", "path": "/data/l"}], "json"),
            ({"metadata": {"labels": {"m": "n"}}, "data": {"k": "3"}}, "strategic"),
            ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"k": "4"}}, "apply"),
        ):
            changed = await client.patch(CONFIG_MAPS, "default", "a", patch, type=kind, manager="m", force=True)
            returned.append((changed, orjson.dumps(changed)))
        await client.replace(CONFIG_MAPS, {**returned[-1][0], "data": {"k": "5"}})
        assert [one["data"]["k"] for one, _ in returned] == ["0", "1", "2", "3", "4"]
        assert all(orjson.dumps(one) == text for one, text in returned)
        assert (await client.get(CONFIG_MAPS, "default", "a"))["data"] == {"k": "5"}

    run_with_client(scenario)


def test_typed_patch_writes_status_with_the_object_unless_webhooks_are_configured() -> None:
    async def scenario(client):
        head = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
        spec = {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}
        await client.create(BINDINGS, {**head, "metadata": {"name": "b", "namespace": "default"}, "spec": spec})
        both = {"spec": {"replicas": 2}, "status": {"schedulerObservedGeneration": 2}}
        untyped = await client.patch(BINDINGS, "default", "b", both)
        assert (untyped["metadata"]["generation"], untyped.get("status")) == (2, None)
        both["spec"]["replicas"] = 3
        typed = await client.patch(BINDINGS, "default", "b", both, typed=True, manager="us")
        assert (typed["metadata"]["generation"], typed["status"]) == (3, {"schedulerObservedGeneration": 2})
        (ours,) = [one for one in typed["metadata"]["managedFields"] if one["manager"] == "us"]
        assert ours["fieldsV1"].keys() == {"f:spec", "f:status"}
        with pytest.raises(Invalid):
            await client.patch(BINDINGS, "default", "b", {"status": {"conditions": 3}, "spec": {}}, typed=True)
        assert client.takes_status
        hook = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": "h"}, "webhooks": []}
        await client.create(WEBHOOKS, hook)
        assert not client.takes_status

    run_with_client(scenario)


class JoinsTransaction:
    """An admission plugin that joins the transaction of bindings named `counted`."""

    def transaction_check(self, attributes, obj):
        return (lambda _: ()) if obj["metadata"]["name"] == "counted" else None

    async def validate(self, attributes, obj, old) -> None:
        """Accepts every object."""


def test_change_from_number_to_boolean_is_written() -> None:
    def manifests(value: object) -> dict:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "free": value}
        return {"spec": {"workload": {"manifests": [manifest]}}}

    async def scenario(client):
        head = {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"}
        await client.create(WORKS, {**head, "metadata": {"name": "w", "namespace": "default"}, **manifests(1)})
        await client.patch(WORKS, "default", "w", manifests(True))
        assert (await client.get(WORKS, "default", "w"))["spec"]["workload"]["manifests"][0]["free"] is True

    run_with_client(scenario)


def bindings(*names: str) -> list[dict]:
    head = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
    spec = {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}
    return [{**head, "metadata": {"name": name, "namespace": "default"}, "spec": spec} for name in names]


def test_create_together_sends_one_event_batch_and_equals_single_creates() -> None:
    async def scenario(client):
        revision = (await client.list(BINDINGS)).revision
        made = await client.create_together(BINDINGS, bindings("a", "b"), manager="us")
        async for changes in client.watch(BINDINGS, revision=revision):
            assert [change.object for change in changes] == made
            break
        alone = await client.create(BINDINGS, bindings("c")[0], manager="us", typed=True)
        mine = ("name", "uid", "resourceVersion")
        together, single = ({k: v for k, v in one["metadata"].items() if k not in mine} for one in (made[0], alone))
        assert (together, made[0]["spec"]) == (single, alone["spec"])

    run_with_client(scenario)


@pytest.mark.parametrize("second", ["there", "Not A Name", "counted", "a"])
def test_create_together_creates_nothing_when_one_object_needs_its_own_create(second: str) -> None:
    async def scenario(client):
        await client.create(BINDINGS, bindings("there")[0])
        assert await client.create_together(BINDINGS, bindings("a", second)) is None
        assert [one["metadata"]["name"] for one in (await client.list(BINDINGS)).items] == ["there"]

    run_with_client(scenario, JoinsTransaction())


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_status_pages_are_those_that_every_caller_gets(path: str) -> None:
    async def run() -> None:
        server = ApiServer(Store())
        for _ in range(2):  # before and after the start
            request = Request("GET", path, {}, {}, certificate_user=SYSTEM)
            expected = await server.handler.handle(request)
            assert isinstance(expected, Response)
            found = await LocalClient(server).fetch(path)
            assert (found.code, found.body) == (expected.code, expected.body)
            await server.start()
        await server.stop()

    run_virtually(run())


def test_large_objects_are_decoded_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    decode = ObjectSchema.decode

    def noting(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return decode(*arguments, **options)

    monkeypatch.setattr(ObjectSchema, "decode", noting)

    async def scenario() -> None:
        server = ApiServer(Store())
        await server.start()
        client = LocalClient(server)
        try:
            await client.create(CONFIG_MAPS, config_map("small", k="v"))
            made = await client.create(CONFIG_MAPS, config_map("large", **{f"k{n}": "v" for n in range(9000)}))
            await client.replace(CONFIG_MAPS, made)
        finally:
            await server.stop()

    asyncio.run(scenario())
    assert threads == [True, False, False]


def test_typed_patches_of_a_decoded_object_run_in_the_loop_unless_they_are_large_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[bool] = []
    merge = patch_requests.apply_merge_patch

    def noting(*arguments: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return merge(*arguments)

    monkeypatch.setattr(patch_requests, "apply_merge_patch", noting)
    policies = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
    selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{n}"} for n in range(3000)]
    wanted = {
        "apiVersion": policies.api_version,
        "kind": policies.kind,
        "metadata": {"name": "large", "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": {}},
    }

    async def scenario() -> None:
        server = ApiServer(Store())
        await server.start()
        client = LocalClient(server)

        async def patch(change: Raw, *, typed: bool) -> None:
            await client.patch(policies, "default", "large", change, typed=typed)

        try:
            await client.create(policies, wanted)
            await patch({"spec": {"priority": 1}}, typed=False)
            await patch({"spec": {"priority": 2}}, typed=True)
            await patch({"spec": {"resourceSelectors": selectors[1:]}}, typed=True)
        finally:
            await server.stop()

    asyncio.run(scenario())
    assert threads == [False, True, False]
