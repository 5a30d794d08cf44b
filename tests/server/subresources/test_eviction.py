import asyncio

import orjson
import pytest

from properties.hypothesis_settings import EFFORT
from server.asgi import AsgiClient, with_asgi_client
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, MAX_ENTRIES, entries_of
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION
from trimtab.errors import ApiError, Forbidden
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.http.listener import Listener
from trimtab.store.store import Store

PODS = "/api/v1/namespaces/default/pods"
PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
BUDGETS = "/apis/trimtab.dev/v1alpha1/namespaces/default/disruptionbudgets"
NODE = "/api/v1/nodes/a"
POLICY = "/apis/trimtab.dev/v1alpha1/disruptionpolicies"
MERGE = "application/merge-patch+json"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SELECTOR = {"matchLabels": {"app": "web"}}


async def pod(wire: AsgiClient, name: str, **status: object) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {"nodeName": "a", "containers": [{"name": "c", "image": "c"}]}
    assert (await wire("POST", PODS, {"metadata": metadata, "spec": spec})).status == 201
    await merge(wire, f"{PODS}/{name}/status", {"status": {**READY, **status}})


async def merge(wire: AsgiClient, path: str, patch: object) -> None:
    answer = await wire("PATCH", path, patch, content_type=MERGE)
    assert answer.status == 200, answer.body


async def pdb(wire: AsgiClient, name: str, healthy: int, desired: int, **metadata: object) -> None:
    body = {"metadata": {"name": name, **metadata}, "spec": {"minAvailable": desired, "selector": SELECTOR}}
    assert (await wire("POST", PDBS, body)).status == 201
    await merge(wire, f"{PDBS}/{name}/status", {"status": budget_status(healthy, desired)})


def budget_status(healthy: int, desired: int) -> dict[str, int]:
    return {
        "observedGeneration": 1,
        "disruptionsAllowed": healthy - desired,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
    }


async def evict(wire: AsgiClient, name: str, subresource: str = "eviction", query: str = "", **annotations: str):
    annotated = {key.replace("_", "-"): value for key, value in annotations.items()}
    annotated = {key if key == "reason" else f"trimtab.dev/{key}": value for key, value in annotated.items()}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "annotations": annotated}}
    return await wire("POST", f"{PODS}/{name}/{subresource}{query}", body)


async def get_object(wire: AsgiClient, path: str):
    return (await wire("GET", path)).json()


def test_every_budget_must_allow_an_eviction_and_all_are_debited_together() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for name in ("web-0", "web-1", "web-2"):
            await pod(wire, name)
        await pdb(wire, "one", 3, 1)
        await pdb(wire, "two", 3, 2)
        before = wire.server.store.revision
        assert (await evict(wire, "web-0")).status == 201
        assert wire.server.store.revision == before + 5  # two budgets, the pod, and events on the pod and on its owner
        refused = await evict(wire, "web-1")
        assert refused.status == 429
        assert "two needs 2 healthy pods and has 2 currently" in refused.json()["details"]["causes"][0]["message"]
        assert "retry-after" not in refused.headers
        allowed = [
            (await get_object(wire, f"{PDBS}/{name}"))["status"]["disruptionsAllowed"] for name in ("one", "two")
        ]
        assert allowed == [1, 0]
        evicted = await get_object(wire, f"{PODS}/web-0")
        assert evicted["metadata"]["deletionTimestamp"]
        (target,) = [c for c in evicted["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert target["reason"] == "EvictionByEvictionAPI"

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_several_budgets_are_an_error_in_plain_kubernetes() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pdb(wire, "one", 3, 1)
        await pdb(wire, "two", 3, 1)
        assert (await evict(wire, "web-0")).status == 500

    with_asgi_client(scenario, garbage_collection=False)


def test_rate_of_a_pdb_is_a_sliding_window_with_retry_after() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for number in range(4):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 4, 0, annotations={RATE_ANNOTATION: "2/1h"})
        assert (await evict(wire, "web-0")).status == 201
        await asyncio.sleep(600)
        assert (await evict(wire, "web-1")).status == 201
        refused = await evict(wire, "web-2")
        assert refused.json()["details"]["retryAfterSeconds"] == 3000
        assert "retry-after" not in refused.headers
        await asyncio.sleep(2995)
        refused = await evict(wire, "web-2")
        assert refused.headers["retry-after"] == str(refused.json()["details"]["retryAfterSeconds"]) == "5"
        await asyncio.sleep(5)
        assert (await evict(wire, "web-2")).status == 201
        assert (await evict(wire, "web-3")).json()["details"]["retryAfterSeconds"] == 600

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_disruption_budget_limits_the_rate_and_records_the_component() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        rate = {"disruptions": 1, "period": "1h"}
        spec = {"target": "Pods", "selector": SELECTOR, "rate": rate, "reasons": ["Reschedule"]}
        assert (await wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": "calm"}, "spec": spec})).status == 201
        await merge(wire, f"{BUDGETS}/calm/status", {"status": budget_status(2, 0)})
        assert (await evict(wire, "web-0", requested_by="rescheduler")).status == 201
        status = (await get_object(wire, f"{BUDGETS}/calm"))["status"]
        assert status["rate"]["recent"][0]["by"] == "rescheduler"
        assert status["inFlight"][0]["object"] == "web-0"
        assert (await evict(wire, "web-1", requested_by="rescheduler")).status == 429
        assert (await evict(wire, "web-1", requested_by="drain")).status == 201

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


CUSTOM = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionBudget"}


def test_dry_run_reports_the_remaining_budget_and_writes_nothing() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pdb(wire, "web", 1, 0, annotations={RATE_ANNOTATION: "3/1h"})
        before = wire.server.store.revision
        answer = await evict(wire, "web-0", query="?dryRun=All")
        assert answer.status == 201
        cost = "PodDisruptionBudget web allows 0 more disruptions and 2 more in 1h afterwards"
        assert answer.json()["message"] == cost
        assert wire.server.store.revision == before

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


EVENTS = "/api/v1/namespaces/default/events"


async def events_with_reason(wire: AsgiClient, reason: str) -> list[tuple[str, str, str]]:
    events = [event for event in (await get_object(wire, EVENTS))["items"] if event["reason"] == reason]
    return [(event["involvedObject"]["kind"], event["involvedObject"]["name"], event["message"]) for event in events]


def test_eviction_is_recorded_in_events_of_the_pod_and_its_owner() -> None:
    async def scenario(wire: AsgiClient) -> None:
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        container = {"name": "c", "image": "c"}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        body = {
            "metadata": {"name": "web-1", "ownerReferences": [deployment]},
            "spec": {"selector": SELECTOR, "template": template},
        }
        assert (await wire("POST", "/apis/apps/v1/namespaces/default/replicasets", body)).status == 201
        await pod(wire, "web-0")
        await pdb(wire, "web", 1, 0)
        await evict(wire, "web-0", requested_by="drain", reason="node a is repaired", move_plan="p7", expected_node="b")
        message = (
            "evicted by drain: node a is repaired (PodDisruptionBudget web allows 0 more disruptions afterwards; "
            "plan p7; its replacement is expected on b)"
        )
        assert await events_with_reason(wire, "Evicted") == [("Pod", "web-0", message)]
        assert await events_with_reason(wire, "PodEvicted") == [("Deployment", "web", f"pod web-0 on a: {message}")]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_direct_deletion_is_recorded_with_the_decision_of_the_budgets() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for number in range(4):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 4, 3)
        controller = User("system:kube-controller-manager", (MASTERS,))
        assert (await wire("DELETE", f"{PODS}/web-3", user=controller)).status == 200
        assert await events_with_reason(wire, "DirectDelete") == []
        await merge(wire, f"{PDBS}/web/status", {"status": budget_status(3, 2)})
        assert (await wire("DELETE", f"{PODS}/web-0")).status == 200
        assert (await wire("DELETE", f"{PODS}/web-0")).status == 200
        allowed = "an eviction would have been allowed (PodDisruptionBudget web allows 0 more disruptions afterwards)"
        assert await events_with_reason(wire, "DirectDelete") == [
            ("Pod", "web-0", f"deleted directly by admin; {allowed}")
        ]
        assert (await wire("DELETE", PODS)).status == 200
        refused = (
            "an eviction would have been refused: The disruption budget web needs 2 healthy pods and has 2 currently"
        )
        assert ("Pod", "web-1", f"deleted directly by admin; {refused}") in await events_with_reason(
            wire, "DirectDelete"
        )
        assert (await get_object(wire, f"{PDBS}/web"))["status"]["disruptionsAllowed"] == 1

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_full_avoid_list_drops_the_entry_that_expires_first() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", "/api/v1/nodes", {"metadata": {"name": "a"}})).status == 201
        names = [f"rs-{number}" for number in range(MAX_ENTRIES + 1)]
        for number, name in enumerate(names):
            await pod(wire, f"web-{number}")
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
            await merge(wire, f"{PODS}/web-{number}", {"metadata": {"ownerReferences": [owner]}})
            await evict(wire, f"web-{number}", prefer_avoid="true", prefer_avoid_ttl=f"{number + 30}m")
        entries = entries_of((await get_object(wire, NODE))["metadata"]["annotations"])
        assert [entry.pod_signature.pod_controller.name for entry in entries] == names[1:]
        message = "32 owners avoid this node; ReplicaSet rs-0 was removed from the list"
        assert await events_with_reason(wire, "AvoidListFull") == [("Node", "a", message)]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_default_component_quotas_apply_without_a_policy() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for number in range(21):
            await pod(wire, f"web-{number}", phase="Running")
        for number in range(10):
            assert (await evict(wire, f"web-{number}", requested_by="rescheduler")).status == 201
        refused = (await evict(wire, "web-10", requested_by="rescheduler")).json()
        assert refused["details"]["causes"][0]["reason"] == "ComponentQuota"
        assert "allows 10 disruptions at once, and 10 are in progress" in refused["details"]["causes"][0]["message"]
        for number in range(10):
            await wire("DELETE", f"{PODS}/web-{number}?gracePeriodSeconds=0")
        for number in range(10, 20):
            assert (await evict(wire, f"web-{number}", requested_by="rescheduler")).status == 201
            await wire("DELETE", f"{PODS}/web-{number}?gracePeriodSeconds=0")
        assert (await evict(wire, "web-20", requested_by="rescheduler")).json()["details"]["retryAfterSeconds"] == 600
        assert (await evict(wire, "web-20")).status == 201

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_eviction_with_the_unsafe_delete_option_is_refused() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        options = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}, "deleteOptions": options}
        assert (await wire("POST", f"{PODS}/web-0/eviction", body)).status == 422
        assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-0"))["metadata"]

    with_asgi_client(scenario, garbage_collection=False)


def test_eviction_that_names_another_pod_than_its_path_is_refused() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}}
        assert (await wire("POST", f"{PODS}/web-0/eviction", body)).status == 400
        assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-0"))["metadata"]

    with_asgi_client(scenario, garbage_collection=False)


def test_evict_is_an_alias_of_the_eviction_subresource() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        assert (await evict(wire, "web-0", "evict")).status == 201

    with_asgi_client(scenario, garbage_collection=False)


def test_unready_pod_counts_although_the_budget_status_is_old() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1", conditions=[{"type": "Ready", "status": "False"}])
        await pdb(wire, "web", 2, 1)
        refused = await evict(wire, "web-0")
        assert refused.status == 429
        assert "needs 1 healthy pods and has 1 currently" in refused.json()["details"]["causes"][0]["message"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_prefer_avoid_adds_to_the_avoid_list_and_repetition_doubles_the_time() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", "/api/v1/nodes", {"metadata": {"name": "a"}})).status == 201
        for number in range(3):
            await pod(wire, f"web-{number}")
        assert (await evict(wire, "web-0", prefer_avoid="true", reason="crashes here")).status == 201
        (entry,) = entries_of((await get_object(wire, NODE))["metadata"]["annotations"])
        assert entry.uids == {"rs"}
        assert entry.message == "crashes here"
        assert entry.seconds == 3600
        assert (await evict(wire, "web-1", prefer_avoid="true")).status == 201
        (entry,) = entries_of((await get_object(wire, NODE))["metadata"]["annotations"])
        assert entry.seconds == 7200
        assert (await evict(wire, "web-2")).status == 201
        assert AVOID_PODS_ANNOTATION in (await get_object(wire, NODE))["metadata"]["annotations"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_pods_of_one_preemption_are_evicted_together_or_not_at_all() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for number in range(3):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 3, 2)
        others = "default/web-1,default/web-2"
        assert (await evict(wire, "web-0", evict_together_with=others, requested_by="preemption")).status == 429
        for number in range(3):
            assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-{number}"))["metadata"]
        await merge(wire, f"{PDBS}/web/status", {"status": budget_status(3, 0)})
        assert (await evict(wire, "web-0", evict_together_with=others, requested_by="preemption")).status == 201
        (target,) = [
            c
            for c in (await get_object(wire, f"{PODS}/web-2"))["status"]["conditions"]
            if c["type"] == "DisruptionTarget"
        ]
        assert target["reason"] == "PreemptionByScheduler"
        assert (await get_object(wire, f"{PDBS}/web"))["status"]["disruptionsAllowed"] == 0

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_component_quota_limits_its_evictions() -> None:
    async def scenario(wire: AsgiClient) -> None:
        quotas = [{"component": "rescheduler", "rate": {"disruptions": 1, "period": "10m"}}]
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"componentQuotas": quotas}})).status == 201
        for number in range(3):
            await pod(wire, f"web-{number}")
        assert (await evict(wire, "web-0", requested_by="rescheduler")).status == 201
        refused = (await evict(wire, "web-1", requested_by="rescheduler")).json()
        assert refused["details"]["causes"][0]["reason"] == "ComponentQuota"
        assert refused["details"]["retryAfterSeconds"] == 600
        assert (await evict(wire, "web-1", requested_by="somebody")).status == 201

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_evict_for_humans_applies_budgets_to_deletions_by_people_only() -> None:
    async def scenario(wire: AsgiClient) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"deleteMode": "EvictForHumans"}})).status == 201
        for number in range(4):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 4, 3)
        assert (await wire("DELETE", f"{PODS}/web-0")).status == 200
        assert (await wire("DELETE", f"{PODS}/web-1")).status == 429
        assert (await wire("DELETE", f"{PODS}/web-1?gracePeriodSeconds=0")).status == 200
        controller = User("system:kube-controller-manager", (MASTERS,))
        assert (await wire("DELETE", f"{PODS}/web-2", user=controller)).status == 200

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


async def limit_by_availability(wire: AsgiClient) -> None:
    await pdb(wire, "web", EVICTORS, EVICTORS - ALLOWED)


async def limit_by_rate(wire: AsgiClient) -> None:
    await pdb(wire, "web", EVICTORS, 0, annotations={RATE_ANNOTATION: f"{ALLOWED}/1h"})


async def limit_by_both(wire: AsgiClient) -> None:
    limits = {"minAvailable": EVICTORS // 2, "rate": {"disruptions": ALLOWED, "period": "1h"}, "maxConcurrent": 50}
    spec = {"target": "Pods", "selector": SELECTOR, **limits}
    assert (await wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": "calm"}, "spec": spec})).status == 201
    await merge(wire, f"{BUDGETS}/calm/status", {"status": budget_status(EVICTORS, EVICTORS // 2)})
    await pdb(wire, "web", EVICTORS, EVICTORS * 3 // 4)


ALLOWED = 7
EVICTORS = 60 if EFFORT == 1 else 200
"""Clients that evict at the same time."""


@pytest.mark.parametrize(
    ("guard", "on_disk", "tls"),
    [
        (limit_by_availability, False, False),
        (limit_by_availability, True, True),
        (limit_by_rate, True, False),
        (limit_by_rate, True, True),
        (limit_by_both, True, False),
    ],
)
def test_exactly_the_allowed_number_of_concurrent_evictions_succeeds(guard, on_disk: bool, tls: bool, tmp_path) -> None:
    async def scenario() -> tuple[list[int], int]:
        token = {"secret": User("admin", (MASTERS, AUTHENTICATED))}
        store = Store.open(tmp_path) if on_disk else Store()
        server = ApiServer(
            store, ApiServerSettings(check_all_budgets=True, static_tokens=token, garbage_collection=False)
        )
        await server.start()
        authority = ensure_authority(tmp_path / "pki", ["127.0.0.1"]) if tls else None
        listener = Listener(server.app, "127.0.0.1", 0, authority)
        await listener.start()
        wire = AsgiClient(server)
        for number in range(EVICTORS):
            await pod(wire, f"web-{number}")
        await guard(wire)
        address = Credentials(
            server=f"{'https' if tls else 'http'}://127.0.0.1:{listener.port}",
            ca=authority.certificate.read_bytes() if authority is not None else b"",
            token="secret",
        )
        clients = [KubeClient(address) for _ in range(EVICTORS)]
        try:
            codes = await asyncio.gather(*(evict_over_http(clients[number], number) for number in range(EVICTORS)))
            remaining = server.store.list("/registry/core/pods/").entries
            terminating = sum("deletionTimestamp" in orjson.loads(entry.value)["metadata"] for entry in remaining)
        finally:
            for client in clients:
                await client.close()
            await listener.stop()
            await server.stop()
        return sorted(codes), terminating

    assert asyncio.run(scenario()) == ([201] * ALLOWED + [429] * (EVICTORS - ALLOWED), ALLOWED)


async def evict_over_http(client: KubeClient, number: int) -> int:
    """Half of the requests use the alias of the subresource."""
    name = f"web-{number}"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    subresource = "evict" if number % 2 else "eviction"
    try:
        await client.submit(Resource("", "v1", "pods", "Pod"), "default", name, subresource, body)
    except ApiError as fault:
        return fault.code
    return 201


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("prefer_avoid", "yes", 'must be "true" or "false"'),
        ("prefer_avoid_ttl", "soon", "must be a duration such as 30s, 10m or 1h"),
        ("prefer_avoid_until", "bound:1", "must be scheduled:UID, with the uid of the pod to be scheduled"),
        ("reason", "Whim", "supported values"),
    ],
)
def test_eviction_with_an_invalid_annotation_is_refused(annotation: str, value: str, message: str) -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        key = f"trimtab.dev/{annotation.replace('_', '-')}"
        body = {"metadata": {"name": "web-0", "annotations": {key: value}}}
        refused = await wire("POST", f"{PODS}/web-0/eviction", body)
        assert refused.status == 422
        (cause,) = refused.json()["details"]["causes"]
        assert cause["field"] == f"metadata.annotations[{key}]"
        assert message in cause["message"]
        assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-0"))["metadata"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_user_is_counted_as_the_component_of_the_policy() -> None:
    async def scenario(wire: AsgiClient) -> None:
        quotas = [{"component": "sweeper", "users": ["sweep"], "rate": {"disruptions": 1, "period": "10m"}}]
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"componentQuotas": quotas}})).status == 201
        for number in range(2):
            await pod(wire, f"web-{number}")
        sweep = User("sweep", (MASTERS, AUTHENTICATED))

        async def evict_as_sweeper(name: str) -> int:
            annotations = {"trimtab.dev/requested-by": "somebody-else"}
            body = {"metadata": {"name": name, "annotations": annotations}}
            return (await wire("POST", f"{PODS}/{name}/eviction", body, user=sweep)).status

        assert await evict_as_sweeper("web-0") == 201
        assert await evict_as_sweeper("web-1") == 429
        (used,) = (await get_object(wire, f"{POLICY}/default"))["status"]["components"]
        assert used["component"] == "sweeper"

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_refused_deletion_names_the_budget_and_how_to_bypass_it() -> None:
    async def scenario(wire: AsgiClient) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"deleteMode": "EvictForHumans"}})).status == 201
        await pod(wire, "web-0")
        await pdb(wire, "web", 1, 1)
        message = (await wire("DELETE", f"{PODS}/web-0")).json()["message"]
        assert "web needs 1 healthy pods and has 1 currently" in message
        assert "EvictForHumans" in message
        assert "gracePeriodSeconds 0" in message

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_eviction_debits_the_budget_and_deletes_the_pod() -> None:
    async def scenario(wire: AsgiClient) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await wire("POST", PODS, {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        merge = {"content_type": "application/merge-patch+json"}
        assert (await wire("PATCH", f"{PODS}/p/status", {"status": status}, **merge)).status == 200
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
        await wire("POST", budgets, budget)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        refused = await wire("POST", f"{PODS}/p/eviction", eviction)
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        healthy = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
        await wire("PATCH", f"{budgets}/b/status", {"status": healthy}, **merge)
        assert (await wire("POST", f"{PODS}/p/eviction", eviction)).status == 201
        debited = (await wire("GET", f"{budgets}/b")).json()["status"]
        assert (debited["disruptionsAllowed"], list(debited["disruptedPods"])) == (0, ["p"])
        assert "deletionTimestamp" in (await wire("GET", f"{PODS}/p")).json()["metadata"]

    with_asgi_client(scenario)


def test_only_the_scheduler_evicts_several_pods_in_one_step() -> None:
    async def scenario(wire: AsgiClient) -> None:
        for number in range(2):
            await pod(wire, f"web-{number}")
        rules = [{"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]}]
        role = {"metadata": {"name": "evictor"}, "rules": rules}
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        assert (await wire("POST", f"{rbac}/clusterroles", role)).status == 201
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "evictor"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
        body = {"metadata": {"name": "evictor"}, "roleRef": reference, "subjects": [subject]}
        assert (await wire("POST", f"{rbac}/clusterrolebindings", body)).status == 201
        metadata = {"name": "web-0", "annotations": {"trimtab.dev/evict-together-with": "default/web-1"}}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        alice = User("alice", (AUTHENTICATED,))
        refused = await wire("POST", f"{PODS}/web-0/eviction", eviction, user=alice)
        assert (refused.status, "only the scheduler" in refused.json()["message"]) == (403, True)
        metadata["annotations"] = {}
        assert (await wire("POST", f"{PODS}/web-0/eviction", eviction, user=alice)).status == 201
        assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-1"))["metadata"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_validating_admission_may_refuse_an_eviction() -> None:
    class KeepsPods:
        async def validate(self, attributes: object, obj: object, old: object) -> None:
            if obj is None:
                raise Forbidden("pods stay")

    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        refused = await evict(wire, "web-0")
        assert (refused.status, refused.json()["message"]) == (403, "pods stay")
        assert "deletionTimestamp" not in (await get_object(wire, f"{PODS}/web-0"))["metadata"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False, plugins=(KeepsPods(),))


@pytest.mark.parametrize("all_budgets", [True, False])
def test_no_pod_is_evicted_while_moves_are_frozen(all_budgets: bool) -> None:
    async def scenario(wire: AsgiClient) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"freeze": {"reason": "rehearsal"}}})).status == 201
        await pod(wire, "web-0")
        refused = await evict(wire, "web-0")
        assert refused.status == 429
        assert refused.json()["details"]["causes"] == [
            {
                "reason": "Freeze",
                "message": "all moves are frozen (rehearsal); `trimtab thaw` releases them",
            }
        ]
        await merge(wire, f"{POLICY}/default", {"spec": {"freeze": None}})
        assert (await evict(wire, "web-0")).status == 201

    with_asgi_client(scenario, check_all_budgets=all_budgets, garbage_collection=False)


def test_pod_whose_eviction_is_granted_is_not_counted_as_healthy() -> None:
    """Otherwise two evictors with one status of the budget would take two pods where one may go."""

    async def scenario(wire: AsgiClient) -> None:
        for number in range(3):
            await pod(wire, f"web-{number}")
        now = (await get_object(wire, f"{PODS}/web-0"))["metadata"]["creationTimestamp"]
        spec = {"target": "Pods", "selector": SELECTOR, "minAvailable": 2}
        assert (await wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": "web"}, "spec": spec})).status == 201
        status = {**budget_status(3, 2), "disruptedPods": {"web-0": now}}
        await merge(wire, f"{BUDGETS}/web/status", {"status": status})
        assert (await evict(wire, "web-1")).status == 429

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)
