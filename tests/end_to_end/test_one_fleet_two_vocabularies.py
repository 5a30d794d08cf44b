"""A whole fleet in one process, spoken to in the words of Open Cluster Management."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.app import Embedded
from trimtab.client.client import Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import AlreadyExists, Forbidden
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.auth.user import User
from trimtab.server.http.messages import Answer, Ask
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

CLUSTERS, WORKS = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": {}}
ADD_ON = {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "s"}}


def where(api_version: str, kind: str) -> Resource:
    declared = find_kind(api_version, kind)
    assert declared is not None
    return resource_of(declared)


MANAGED = where(f"{CLUSTERS}/v1", "ManagedCluster")
DECISIONS = where(f"{CLUSTERS}/v1beta1", "PlacementDecision")
SCORES = where(f"{CLUSTERS}/v1alpha1", "AddOnPlacementScore")
REPLICA_SETS = where(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet")
BINDINGS = where("work.karmada.io/v1alpha2", "ResourceBinding")
FLEET = where("cluster.karmada.io/v1alpha1", "Cluster")


class Told:
    """The fleet, and short words for what is done to it."""

    def __init__(self, fleet: Embedded) -> None:
        self.fleet, self.client = fleet, fleet.client

    async def make(self, api_version: str, kind: str, name: str, spec: Raw) -> None:
        metadata = {"name": name, "namespace": "default"}
        raw = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
        await self.client.create(where(api_version, kind), raw)

    async def bind_and_place(self, **spec: Any) -> None:
        await self.make(f"{CLUSTERS}/v1beta2", "ManagedClusterSetBinding", "global", {"clusterSet": "global"})
        await self.make(f"{CLUSTERS}/v1beta1", "Placement", "p", spec)

    async def chosen(self) -> list[str]:
        pages = (await self.client.list(DECISIONS, "default")).items
        return [entry["clusterName"] for page in pages for entry in page.get("status", {}).get("decisions", ())]

    async def holding(self) -> list[str]:
        """The members that have the ConfigMap."""
        found = []
        for name, member in self.fleet.world.members.items():
            items = (await member.client.list(CONFIG_MAPS, "default")).items
            found += [name for item in items if item["metadata"]["name"] == "x"]
        return sorted(found)

    async def score(self, cluster: str, value: int) -> None:
        metadata = {"name": "cost", "namespace": cluster}
        try:
            raw = {"apiVersion": SCORES.api_version, "kind": "AddOnPlacementScore", "metadata": metadata}
            await self.client.create(SCORES, raw)
        except AlreadyExists:
            pass
        status = {"status": {"scores": [{"name": "s", "value": value}]}}
        await self.client.patch(SCORES, cluster, "cost", status, subresource="status")


def told(story: Callable[[Told], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = LoopClock()
        host = ApiServer(Store(), Settings(clock=clock))
        await host.start()
        plan = FleetPlan(members=tuple(MemberPlan(name=name) for name in ("m1", "m2", "m3")))
        fleet = Embedded(plan, host=host, clock=clock)
        await fleet.start()
        try:
            await asyncio.sleep(30)
            await story(Told(fleet))
        finally:
            await fleet.stop()
            await host.stop()

    run_virtually(run())


def test_manifests_reach_the_chosen_clusters_and_follow_when_one_is_drained() -> None:
    async def story(told: Told) -> None:
        await told.bind_and_place(numberOfClusters=2)
        template = {"workload": {"manifests": [CONFIG_MAP]}}
        spec = {"placementRefs": [{"name": "p"}], "manifestWorkTemplate": template}
        await told.make(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet", "web", spec)
        await asyncio.sleep(20)
        assert await told.chosen() == await told.holding() == ["m1", "m2"]
        status = (await told.client.get(REPLICA_SETS, "default", "web"))["status"]
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "PlacementVerified": "True",
            "PlacementRolledOut": "True",
            "ManifestworkApplied": "True",
        }
        drain = {"spec": {"taints": [{"key": "drain", "effect": "NoSelect"}]}}
        await told.client.patch(MANAGED, "", "m1", drain)
        await asyncio.sleep(30)
        assert await told.chosen() == await told.holding() == ["m2", "m3"]
        taints = (await told.client.get(FLEET, "", "m1"))["spec"]["taints"]
        assert [(taint["key"], taint["effect"]) for taint in taints] == [("drain", "NoSchedule")]

    told(story)


def test_deleting_the_managed_cluster_takes_the_cluster_out_of_the_fleet() -> None:
    async def story(told: Told) -> None:
        await told.bind_and_place()
        await told.client.delete(MANAGED, "", "m3")
        await asyncio.sleep(60)
        for resource in (MANAGED, FLEET):
            names = [one["metadata"]["name"] for one in (await told.client.list(resource)).items]
            assert names == ["m1", "m2"]
        assert await told.chosen() == ["m1", "m2"]

    told(story)


def test_the_server_tells_why_a_placement_was_answered_so() -> None:
    async def story(told: Told) -> None:
        await told.bind_and_place(numberOfClusters=1)
        await asyncio.sleep(5)
        answer = await told.client.fetch("/debug/placements/default/p")
        debug = msgspec.json.decode(answer.body)
        assert answer.code == 200
        assert [step["name"] for step in debug["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]
        assert debug["aggregatedScores"][0] == {"clusterName": "m1", "score": 200}
        assert (await told.client.fetch("/debug/placements/default/nosuch")).code == 404

    told(story)


def test_a_better_score_moves_a_workload_only_when_it_lasts() -> None:
    async def story(told: Told) -> None:
        for cluster, value in (("m1", 0), ("m2", 80), ("m3", -50)):
            await told.score(cluster, value)
        placement = {
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            "prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": ADD_ON, "weight": 1}]},
        }
        selectors = [{"apiVersion": "v1", "kind": "ConfigMap"}]
        spec = {"resourceSelectors": selectors, "placement": placement}
        await told.make("policy.karmada.io/v1alpha1", "PropagationPolicy", "p", spec)
        await told.client.create(CONFIG_MAPS, CONFIG_MAP)
        await asyncio.sleep(20)
        assert await told.holding() == ["m2"]
        for _ in range(10):
            await told.score("m3", 100)
            await asyncio.sleep(60)
            await told.score("m3", -50)
            await asyncio.sleep(60)
        assert await told.holding() == ["m2"], "a score that flaps moves nothing"
        await told.score("m3", 100)
        await asyncio.sleep(400)
        assert await told.holding() == ["m3"]
        binding = await told.client.get(BINDINGS, "default", "x-configmap")
        assert "ScoreChange" in binding["metadata"]["annotations"]["trimtab.dev/asked-by"]

    told(story)


def test_a_settled_fleet_with_placements_writes_nothing_for_an_hour() -> None:
    async def story(told: Told) -> None:
        for cluster, value in (("m1", 0), ("m2", 80), ("m3", 80)):
            await told.score(cluster, value)
        ranked = {"mode": "Exact", "configurations": [{"scoreCoordinate": ADD_ON, "weight": 1}]}
        await told.bind_and_place(numberOfClusters=2, prioritizerPolicy=ranked, sortBy="Score")
        await told.make(f"{CLUSTERS}/v1beta1", "Placement", "odd", {"prioritizerPolicy": {"mode": "Odd"}})
        work = {
            "manifestWorkTemplate": {"workload": {"manifests": [CONFIG_MAP]}},
            "placementRefs": [{"name": "p", "rolloutStrategy": {"type": "Progressive", "progressive": {}}}],
        }
        await told.make(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet", "set", work)
        for name, placement in (("ranked", {"prioritizerPolicy": ranked}), ("led", {"placementRef": {"name": "p"}})):
            selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]
            spec = {"resourceSelectors": selectors, "placement": placement}
            await told.make("policy.karmada.io/v1alpha1", "PropagationPolicy", name, spec)
            await told.client.create(CONFIG_MAPS, CONFIG_MAP | {"metadata": {"name": name, "namespace": "default"}})
        await asyncio.sleep(10)
        taint = {"key": "guest", "effect": "NoSelectIfNew"}
        await told.client.patch(MANAGED, "", "m3", {"spec": {"taints": [taint]}})
        await asyncio.sleep(600)
        assert await told.chosen() == ["m2", "m3"]
        assert await told.holding() == ["m2", "m3"]

        store = told.fleet.host.store

        def kept() -> dict[str, int]:
            """Every object but events, which end by themselves."""
            entries = store.list("/registry/").entries
            return {entry.key: entry.mod_revision for entry in entries if "/events/" not in entry.key}

        before, revision = kept(), store.revision
        await asyncio.sleep(3600)
        assert kept() == before
        assert [entry.key for entry in store.list("/registry/").entries if entry.mod_revision > revision] == []

    told(story)


def test_who_may_read_a_placement_is_told_about_it_and_who_may_create_one_may_ask_what_if() -> None:
    async def story(told: Told) -> None:
        await told.bind_and_place(numberOfClusters=1)
        await asyncio.sleep(5)
        role = {"rules": [{"apiGroups": [CLUSTERS], "resources": ["placements"], "verbs": ["get", "create"]}]}
        subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "placer"}
        for kind, body in (("Role", role), ("RoleBinding", {"subjects": subjects, "roleRef": reference})):
            rbac = "rbac.authorization.k8s.io/v1"
            raw = {"apiVersion": rbac, "kind": kind, "metadata": {"name": "placer", "namespace": "default"}, **body}
            await told.client.create(where(rbac, kind), raw)

        async def asked(method: str, path: str, user: str, body: Any = None) -> tuple[int, Any]:
            encoded = msgspec.json.encode(body) if body is not None else b""
            ask = Ask(method, f"/debug/placements/{path}", {}, {}, body=encoded, certificate_user=User(user))
            answer = await told.fleet.host.handler.answer(ask)
            assert isinstance(answer, Answer)
            return answer.code, msgspec.json.decode(answer.body)

        code, answer = await asked("GET", "default/p", "alice")
        assert (code, answer["placement"]["spec"]["numberOfClusters"]) == (200, 1)
        taint = {"labelSelector": {"matchExpressions": [{"key": "no", "operator": "Exists"}]}}
        what_if = {"spec": {"predicates": [{"requiredClusterSelector": taint}]}}
        code, answer = await asked("POST", "default/if", "alice", what_if)
        assert (code, answer["filteredPipelineResults"][0]) == (200, {"name": "Predicate"})
        assert answer["placement"]["metadata"] == {"name": "if", "namespace": "default"}
        assert (await asked("GET", "default/nosuch", "alice")) == (404, {"error": "placement 'nosuch' not found"})
        assert (await asked("POST", "default/if", "alice", ["no"]))[0] == 400
        for user, path in (("bob", "default/p"), ("alice", "kube-system/p")):
            with pytest.raises(Forbidden, match="cannot get resource"):
                await asked("GET", path, user)

    told(story)


def test_decisions_have_the_shape_that_argo_cd_reads() -> None:
    """Its cluster decision resource generator lists by label and takes `clusterName` of every entry of `status.decisions`."""

    async def story(told: Told) -> None:
        await told.bind_and_place(numberOfClusters=2)
        await asyncio.sleep(5)
        found = await told.client.list(DECISIONS, "default", labels=f"{CLUSTERS}/placement=p")
        names = []
        for resource in found.items:
            assert (resource["apiVersion"], resource["kind"]) == (f"{CLUSTERS}/v1beta1", "PlacementDecision")
            assert isinstance(resource["status"]["decisions"], list)
            names += [entry["clusterName"] for entry in resource["status"]["decisions"]]
        assert names == ["m1", "m2"]
        assert (DECISIONS.group, DECISIONS.plural) == (CLUSTERS, "placementdecisions")
        none = await told.client.list(DECISIONS, "default", labels=f"{CLUSTERS}/placement=other")
        assert none.items == []

    told(story)
