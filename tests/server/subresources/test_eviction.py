import asyncio

import orjson
import pytest

from server.asgi import Wire, with_wire
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.decide.pods.avoid_list import ANNOTATION, MOST, entries_of
from trimtab.decide.pods.budgets.pod_budgets import RATE
from trimtab.errors import ApiFault
from trimtab.server.apiserver import ApiServer, Settings
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


async def pod(wire: Wire, name: str, **status: object) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {"nodeName": "a", "containers": [{"name": "c", "image": "c"}]}
    assert (await wire("POST", PODS, {"metadata": metadata, "spec": spec})).status == 201
    await merge(wire, f"{PODS}/{name}/status", {"status": {**READY, **status}})


async def merge(wire: Wire, path: str, patch: object) -> None:
    answer = await wire("PATCH", path, patch, content_type=MERGE)
    assert answer.status == 200, answer.body


async def pdb(wire: Wire, name: str, healthy: int, desired: int, **metadata: object) -> None:
    body = {"metadata": {"name": name, **metadata}, "spec": {"minAvailable": desired, "selector": SELECTOR}}
    assert (await wire("POST", PDBS, body)).status == 201
    await merge(wire, f"{PDBS}/{name}/status", {"status": stood(healthy, desired)})


def stood(healthy: int, desired: int) -> dict[str, int]:
    return {
        "observedGeneration": 1,
        "disruptionsAllowed": healthy - desired,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": healthy,
    }


async def evict(wire: Wire, name: str, subresource: str = "eviction", query: str = "", **annotations: str):
    noted = {key.replace("_", "-"): value for key, value in annotations.items()}
    noted = {key if key == "reason" else f"trimtab.dev/{key}": value for key, value in noted.items()}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "annotations": noted}}
    return await wire("POST", f"{PODS}/{name}/{subresource}{query}", body)


async def seen(wire: Wire, path: str):
    return (await wire("GET", path)).json()


def test_every_budget_must_allow_it_and_all_pay_in_one_step() -> None:
    async def story(wire: Wire) -> None:
        for name in ("web-0", "web-1", "web-2"):
            await pod(wire, name)
        await pdb(wire, "one", 3, 1)
        await pdb(wire, "two", 3, 2)
        before = wire.server.store.revision
        assert (await evict(wire, "web-0")).status == 201
        assert (
            wire.server.store.revision == before + 5
        )  # two budgets, the pod, and what is told of it on the pod and on its owner
        refused = await evict(wire, "web-1")
        assert refused.status == 429
        assert "two needs 2 healthy pods and has 2 currently" in refused.json()["details"]["causes"][0]["message"]
        assert "retry-after" not in refused.headers
        allowed = [(await seen(wire, f"{PDBS}/{name}"))["status"]["disruptionsAllowed"] for name in ("one", "two")]
        assert allowed == [1, 0]
        gone = await seen(wire, f"{PODS}/web-0")
        assert gone["metadata"]["deletionTimestamp"]
        (target,) = [c for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert target["reason"] == "EvictionByEvictionAPI"

    with_wire(story, several_budgets=True, collects=False)


def test_several_budgets_are_an_error_where_kubernetes_answers_so() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pdb(wire, "one", 3, 1)
        await pdb(wire, "two", 3, 1)
        assert (await evict(wire, "web-0")).status == 500

    with_wire(story, collects=False)


def test_a_rate_on_a_poddisruptionbudget_is_an_exact_window_and_says_how_long_to_wait() -> None:
    async def story(wire: Wire) -> None:
        for number in range(4):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 4, 0, annotations={RATE: "2/1h"})
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

    with_wire(story, several_budgets=True, collects=False)


def test_a_budget_of_ours_guards_pods_with_its_rate_and_remembers_who_spent_it() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        rate = {"disruptions": 1, "period": "1h"}
        spec = {"target": "Pods", "selector": SELECTOR, "rate": rate, "reasons": ["Reschedule"]}
        assert (await wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": "calm"}, "spec": spec})).status == 201
        await merge(wire, f"{BUDGETS}/calm/status", {"status": stood(2, 0)})
        assert (await evict(wire, "web-0", requested_by="rescheduler")).status == 201
        status = (await seen(wire, f"{BUDGETS}/calm"))["status"]
        assert status["rate"]["recent"][0]["by"] == "rescheduler"
        assert status["inFlight"][0]["object"] == "web-0"
        assert (await evict(wire, "web-1", requested_by="rescheduler")).status == 429
        assert (await evict(wire, "web-1", requested_by="drain")).status == 201

    with_wire(story, several_budgets=True, collects=False)


CUSTOM = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionBudget"}


def test_a_dry_run_judges_changes_nothing_and_says_what_it_would_cost() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pdb(wire, "web", 1, 0, annotations={RATE: "3/1h"})
        before = wire.server.store.revision
        answer = await evict(wire, "web-0", query="?dryRun=All")
        assert answer.status == 201
        cost = "PodDisruptionBudget web allows 0 more disruptions and 2 more in 1h afterwards"
        assert answer.json()["message"] == cost
        assert wire.server.store.revision == before

    with_wire(story, several_budgets=True, collects=False)


EVENTS = "/api/v1/namespaces/default/events"


async def told(wire: Wire, reason: str) -> list[tuple[str, str, str]]:
    events = [one for one in (await seen(wire, EVENTS))["items"] if one["reason"] == reason]
    return [(one["involvedObject"]["kind"], one["involvedObject"]["name"], one["message"]) for one in events]


def test_who_evicted_a_pod_and_why_is_told_on_the_pod_and_on_the_owner_that_outlives_it() -> None:
    async def story(wire: Wire) -> None:
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
        await evict(wire, "web-0", requested_by="drain", reason="node a is repaired", plan="p7", expect_node="b")
        said = (
            "evicted by drain: node a is repaired (PodDisruptionBudget web allows 0 more disruptions afterwards; "
            "plan p7; its replacement is expected on b)"
        )
        assert await told(wire, "Evicted") == [("Pod", "web-0", said)]
        assert await told(wire, "PodEvicted") == [("Deployment", "web", f"pod web-0 on a: {said}")]

    with_wire(story, several_budgets=True, collects=False)


def test_a_deletion_by_hand_is_written_down_with_what_the_budgets_would_have_said() -> None:
    async def story(wire: Wire) -> None:
        for number in range(4):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 4, 3)
        controller = User("system:kube-controller-manager", (MASTERS,))
        assert (await wire("DELETE", f"{PODS}/web-3", user=controller)).status == 200
        assert await told(wire, "DirectDelete") == []
        await merge(wire, f"{PDBS}/web/status", {"status": stood(3, 2)})
        assert (await wire("DELETE", f"{PODS}/web-0")).status == 200
        assert (await wire("DELETE", f"{PODS}/web-0")).status == 200
        allowed = "an eviction would have been allowed (PodDisruptionBudget web allows 0 more disruptions afterwards)"
        assert await told(wire, "DirectDelete") == [("Pod", "web-0", f"deleted directly by admin; {allowed}")]
        assert (await wire("DELETE", PODS)).status == 200
        refused = (
            "an eviction would have been refused: The disruption budget web needs 2 healthy pods and has 2 currently"
        )
        assert ("Pod", "web-1", f"deleted directly by admin; {refused}") in await told(wire, "DirectDelete")
        assert (await seen(wire, f"{PDBS}/web"))["status"]["disruptionsAllowed"] == 1

    with_wire(story, several_budgets=True, collects=False)


def test_a_full_avoid_list_forgets_who_ends_soonest_and_says_so() -> None:
    async def story(wire: Wire) -> None:
        assert (await wire("POST", "/api/v1/nodes", {"metadata": {"name": "a"}})).status == 201
        names = [f"rs-{number}" for number in range(MOST + 1)]
        for number, name in enumerate(names):
            await pod(wire, f"web-{number}")
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
            await merge(wire, f"{PODS}/web-{number}", {"metadata": {"ownerReferences": [owner]}})
            await evict(wire, f"web-{number}", prefer_avoid="true", prefer_avoid_ttl=f"{number + 30}m")
        entries = entries_of((await seen(wire, NODE))["metadata"]["annotations"])
        assert [entry.pod_signature.pod_controller.name for entry in entries] == names[1:]
        said = "32 owners avoid this node; ReplicaSet rs-0 no longer does, to make room"
        assert await told(wire, "AvoidListFull") == [("Node", "a", said)]

    with_wire(story, several_budgets=True, collects=False)


def test_the_usual_quotas_of_components_hold_also_without_a_policy() -> None:
    async def story(wire: Wire) -> None:
        for number in range(21):
            await pod(wire, f"web-{number}", phase="Running")
        for number in range(10):
            assert (await evict(wire, f"web-{number}", requested_by="rescheduler")).status == 201
        refused = (await evict(wire, "web-10", requested_by="rescheduler")).json()
        assert refused["details"]["causes"][0]["reason"] == "ComponentQuota"
        assert "allows 10 disruptions at once, and 10 are going on" in refused["details"]["causes"][0]["message"]
        for number in range(10):
            await wire("DELETE", f"{PODS}/web-{number}?gracePeriodSeconds=0")
        for number in range(10, 20):
            assert (await evict(wire, f"web-{number}", requested_by="rescheduler")).status == 201
            await wire("DELETE", f"{PODS}/web-{number}?gracePeriodSeconds=0")
        assert (await evict(wire, "web-20", requested_by="rescheduler")).json()["details"]["retryAfterSeconds"] == 600
        assert (await evict(wire, "web-20")).status == 201

    with_wire(story, several_budgets=True, collects=False)


@pytest.mark.parametrize(
    ("limit", "warned"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"maxUnavailable": "1%"}, False),
        ({"minAvailable": "100%"}, True),
        ({"minAvailable": "99%"}, False),
        ({"minAvailable": 2}, True),
        ({"minAvailable": 1}, False),
    ],
)
def test_who_writes_a_budget_that_never_allows_anything_is_told_so(limit: dict[str, object], warned: bool) -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        body = {"metadata": {"name": "strict"}, "spec": {**limit, "selector": SELECTOR}}
        answer = await wire("POST", PDBS, body)
        assert answer.status == 201
        assert ("strict: " in answer.headers.get("warning", "")) == warned
        assert ("cannot be drained" in answer.headers.get("warning", "")) == warned

    with_wire(story, several_budgets=True, collects=False)


def test_where_the_policy_has_floors_never_may_not_be_the_last_word() -> None:
    async def story(wire: Wire) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"floors": [{"minMaxUnavailable": 1}]}})).status == 201
        body = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 0, "selector": SELECTOR}}
        assert "unless a floor" in (await wire("POST", PDBS, body)).headers["warning"]

    with_wire(story, several_budgets=True, collects=False)


def test_an_eviction_cannot_ask_to_delete_what_cannot_be_read() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        options = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}, "deleteOptions": options}
        assert (await wire("POST", f"{PODS}/web-0/eviction", body)).status == 422
        assert "deletionTimestamp" not in (await seen(wire, f"{PODS}/web-0"))["metadata"]

    with_wire(story, collects=False)


def test_the_older_name_of_the_subresource_works_too() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        assert (await evict(wire, "web-0", "evict")).status == 201

    with_wire(story, collects=False)


def test_a_pod_that_fell_ill_a_moment_ago_counts_although_the_controller_has_not_seen_it() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1", conditions=[{"type": "Ready", "status": "False"}])
        await pdb(wire, "web", 2, 1)
        refused = await evict(wire, "web-0")
        assert refused.status == 429
        assert "needs 1 healthy pods and has 1 currently" in refused.json()["details"]["causes"][0]["message"]

    with_wire(story, several_budgets=True, collects=False)


def test_an_eviction_may_ask_the_node_to_be_avoided_and_repetition_doubles_it() -> None:
    async def story(wire: Wire) -> None:
        assert (await wire("POST", "/api/v1/nodes", {"metadata": {"name": "a"}})).status == 201
        for number in range(3):
            await pod(wire, f"web-{number}")
        assert (await evict(wire, "web-0", prefer_avoid="true", reason="crashes here")).status == 201
        (entry,) = entries_of((await seen(wire, NODE))["metadata"]["annotations"])
        assert entry.uids == {"rs"}
        assert entry.message == "crashes here"
        assert entry.seconds == 3600
        assert (await evict(wire, "web-1", prefer_avoid="true")).status == 201
        (entry,) = entries_of((await seen(wire, NODE))["metadata"]["annotations"])
        assert entry.seconds == 7200
        assert (await evict(wire, "web-2")).status == 201
        assert ANNOTATION in (await seen(wire, NODE))["metadata"]["annotations"]

    with_wire(story, several_budgets=True, collects=False)


def test_victims_of_one_preemption_go_together_or_not_at_all() -> None:
    async def story(wire: Wire) -> None:
        for number in range(3):
            await pod(wire, f"web-{number}")
        await pdb(wire, "web", 3, 2)
        others = "default/web-1,default/web-2"
        assert (await evict(wire, "web-0", together=others, requested_by="preemption")).status == 429
        for number in range(3):
            assert "deletionTimestamp" not in (await seen(wire, f"{PODS}/web-{number}"))["metadata"]
        await merge(wire, f"{PDBS}/web/status", {"status": stood(3, 0)})
        assert (await evict(wire, "web-0", together=others, requested_by="preemption")).status == 201
        (target,) = [
            c for c in (await seen(wire, f"{PODS}/web-2"))["status"]["conditions"] if c["type"] == "DisruptionTarget"
        ]
        assert target["reason"] == "PreemptionByScheduler"
        assert (await seen(wire, f"{PDBS}/web"))["status"]["disruptionsAllowed"] == 0

    with_wire(story, several_budgets=True, collects=False)


def test_a_component_has_a_quota_of_its_own() -> None:
    async def story(wire: Wire) -> None:
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

    with_wire(story, several_budgets=True, collects=False)


def test_where_the_policy_says_so_people_delete_through_the_budgets_and_components_do_not() -> None:
    async def story(wire: Wire) -> None:
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

    with_wire(story, several_budgets=True, collects=False)


async def strength(wire: Wire) -> None:
    await pdb(wire, "web", 200, 200 - ALLOWED)


async def rate(wire: Wire) -> None:
    await pdb(wire, "web", 200, 0, annotations={RATE: f"{ALLOWED}/1h"})


async def both_of_ours(wire: Wire) -> None:
    limits = {"minAvailable": 100, "rate": {"disruptions": ALLOWED, "period": "1h"}, "maxConcurrent": 50}
    spec = {"target": "Pods", "selector": SELECTOR, **limits}
    assert (await wire("POST", BUDGETS, {**CUSTOM, "metadata": {"name": "calm"}, "spec": spec})).status == 201
    await merge(wire, f"{BUDGETS}/calm/status", {"status": stood(200, 100)})
    await pdb(wire, "web", 200, 150)


ALLOWED = 7


@pytest.mark.parametrize(
    ("guard", "on_disk", "tls"),
    [
        (strength, False, False),
        (strength, True, True),
        (rate, True, False),
        (rate, True, True),
        (both_of_ours, True, False),
    ],
)
def test_of_two_hundred_clients_over_http_exactly_the_allowed_number_succeed(
    guard, on_disk: bool, tls: bool, tmp_path
) -> None:
    async def life() -> tuple[list[int], int]:
        token = {"secret": User("admin", (MASTERS, AUTHENTICATED))}
        store = Store.open(tmp_path) if on_disk else Store()
        server = ApiServer(store, Settings(several_budgets=True, static_tokens=token, collects=False))
        await server.start()
        authority = ensure_authority(tmp_path / "pki", ["127.0.0.1"]) if tls else None
        listener = Listener(server.app, "127.0.0.1", 0, authority)
        await listener.start()
        wire = Wire(server)
        for number in range(200):
            await pod(wire, f"web-{number}")
        await guard(wire)
        address = Credentials(
            server=f"{'https' if tls else 'http'}://127.0.0.1:{listener.port}",
            ca=authority.certificate.read_bytes() if authority is not None else b"",
            token="secret",
        )
        clients = [KubeClient(address) for _ in range(200)]
        try:
            answers = await asyncio.gather(*(try_one(clients[number], number) for number in range(200)))
            left = server.store.list("/registry/core/pods/").entries
            going = sum("deletionTimestamp" in orjson.loads(entry.value)["metadata"] for entry in left)
        finally:
            for client in clients:
                await client.close()
            await listener.stop()
            await server.stop()
        return sorted(answers), going

    assert asyncio.run(life()) == ([201] * ALLOWED + [429] * (200 - ALLOWED), ALLOWED)


async def try_one(client: KubeClient, number: int) -> int:
    """Half of them use the older name of the subresource."""
    name = f"web-{number}"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    subresource = "evict" if number % 2 else "eviction"
    try:
        await client.submit(Resource("", "v1", "pods", "Pod"), "default", name, subresource, body)
    except ApiFault as fault:
        return fault.code
    return 201


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        ("prefer_avoid", "yes", 'must be "true" or "false"'),
        ("prefer_avoid_ttl", "soon", "must be a duration such as 30s, 10m or 1h"),
        ("prefer_avoid_until", "bound:1", "must be scheduled:UID, with the uid of the pod that needs the room"),
        ("reason", "Whim", "supported values"),
    ],
)
def test_an_eviction_whose_wishes_nobody_understands_is_refused_with_what_is_wrong(
    annotation: str, value: str, said: str
) -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        key = f"trimtab.dev/{annotation.replace('_', '-')}"
        body = {"metadata": {"name": "web-0", "annotations": {key: value}}}
        refused = await wire("POST", f"{PODS}/web-0/eviction", body)
        assert refused.status == 422
        (cause,) = refused.json()["details"]["causes"]
        assert cause["field"] == f"metadata.annotations[{key}]"
        assert said in cause["message"]
        assert "deletionTimestamp" not in (await seen(wire, f"{PODS}/web-0"))["metadata"]

    with_wire(story, several_budgets=True, collects=False)


def test_a_user_may_be_held_to_the_quota_of_a_component_whatever_it_says() -> None:
    async def story(wire: Wire) -> None:
        quotas = [{"component": "sweeper", "users": ["sweep"], "rate": {"disruptions": 1, "period": "10m"}}]
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"componentQuotas": quotas}})).status == 201
        for number in range(2):
            await pod(wire, f"web-{number}")
        sweep = User("sweep", (MASTERS, AUTHENTICATED))

        async def swept(name: str) -> int:
            annotations = {"trimtab.dev/requested-by": "somebody-else"}
            body = {"metadata": {"name": name, "annotations": annotations}}
            return (await wire("POST", f"{PODS}/{name}/eviction", body, user=sweep)).status

        assert await swept("web-0") == 201
        assert await swept("web-1") == 429
        (used,) = (await seen(wire, f"{POLICY}/default"))["status"]["components"]
        assert used["component"] == "sweeper"

    with_wire(story, several_budgets=True, collects=False)


def test_a_refused_deletion_says_which_budget_refuses_and_how_to_go_past_it() -> None:
    async def story(wire: Wire) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"deleteMode": "EvictForHumans"}})).status == 201
        await pod(wire, "web-0")
        await pdb(wire, "web", 1, 1)
        said = (await wire("DELETE", f"{PODS}/web-0")).json()["message"]
        assert "web needs 1 healthy pods and has 1 currently" in said
        assert "EvictForHumans" in said
        assert "gracePeriodSeconds 0" in said

    with_wire(story, several_budgets=True, collects=False)


def test_whoever_replaces_a_budget_does_not_wipe_out_what_its_rate_remembers() -> None:
    async def story(wire: Wire) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        await pdb(wire, "web", 2, 0, annotations={RATE: "1/1h"})
        assert (await evict(wire, "web-0")).status == 201
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "annotations": {RATE: "1/1h"}},
            "spec": {"minAvailable": 0, "selector": SELECTOR},
        }
        assert (await wire("PUT", f"{PDBS}/web", body)).status == 200
        assert (await evict(wire, "web-1")).status == 429

    with_wire(story, several_budgets=True, collects=False)


@pytest.mark.parametrize("rate", ["often", "1/", "0/1h", "1001/1h", "1/1h and a bit", "1/0s"])
def test_who_annotates_a_rate_that_cannot_be_read_is_told_so(rate: str) -> None:
    async def story(wire: Wire) -> None:
        body = {"metadata": {"name": "web", "annotations": {RATE: rate}}, "spec": {"selector": SELECTOR}}
        answer = await wire("POST", PDBS, body)
        assert answer.status == 201
        assert "write for example 1/1h" in answer.headers["warning"]

    with_wire(story, several_budgets=True, collects=False)
