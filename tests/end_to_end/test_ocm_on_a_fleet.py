"""A whole simulated fleet, driven through the Open Cluster Management API."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from trimtab.api import kinds
from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.client.client import Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.errors import AlreadyExists, Forbidden
from trimtab.registry import discover
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.user import User
from trimtab.server.request.messages import Request, Response
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

discover(kinds)
CLUSTERS, WORKS = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": {}}
ADD_ON = {"type": "AddOn", "addOn": {"resourceName": "cost", "scoreName": "s"}}


def resource_for(api_version: str, kind: str) -> Resource:
    declared = find_kind(api_version, kind)
    assert declared is not None
    return resource_of(declared)


MANAGED = resource_for(f"{CLUSTERS}/v1", "ManagedCluster")
DECISIONS = resource_for(f"{CLUSTERS}/v1beta1", "PlacementDecision")
SCORES = resource_for(f"{CLUSTERS}/v1alpha1", "AddOnPlacementScore")
REPLICA_SETS = resource_for(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet")
BINDINGS = resource_for("work.karmada.io/v1alpha2", "ResourceBinding")
FLEET = resource_for("cluster.karmada.io/v1alpha1", "Cluster")


class OcmFleet:
    """A fleet with short methods for OCM objects."""

    def __init__(self, fleet: EmbeddedFleet) -> None:
        self.fleet, self.client = fleet, fleet.client

    async def create(self, api_version: str, kind: str, name: str, spec: Raw) -> None:
        metadata = {"name": name, "namespace": "default"}
        raw = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
        await self.client.create(resource_for(api_version, kind), raw)

    async def create_placement(self, **spec: Any) -> None:
        await self.create(f"{CLUSTERS}/v1beta2", "ManagedClusterSetBinding", "global", {"clusterSet": "global"})
        await self.create(f"{CLUSTERS}/v1beta1", "Placement", "p", spec)

    async def selected_clusters(self) -> list[str]:
        pages = (await self.client.list(DECISIONS, "default")).items
        return [entry["clusterName"] for page in pages for entry in page.get("status", {}).get("decisions", ())]

    async def members_with_config_map(self) -> list[str]:
        """The members that have the ConfigMap."""
        found = []
        for name, member in self.fleet.world.members.items():
            items = (await member.client.list(CONFIG_MAPS, "default")).items
            found += [name for item in items if item["metadata"]["name"] == "x"]
        return sorted(found)

    async def set_score(self, cluster: str, value: int) -> None:
        metadata = {"name": "cost", "namespace": cluster}
        try:
            raw = {"apiVersion": SCORES.api_version, "kind": "AddOnPlacementScore", "metadata": metadata}
            await self.client.create(SCORES, raw)
        except AlreadyExists:
            pass
        status = {"status": {"scores": [{"name": "s", "value": value}]}}
        await self.client.patch(SCORES, cluster, "cost", status, subresource="status")


def run_scenario(steps: Callable[[OcmFleet], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = LoopClock()
        host = ApiServer(Store(), ApiServerSettings(clock=clock))
        await host.start()
        plan = FleetPlan(members=tuple(MemberPlan(name=name) for name in ("m1", "m2", "m3")))
        fleet = EmbeddedFleet(plan, host=host, clock=clock)
        await fleet.start()
        try:
            await asyncio.sleep(30)
            await steps(OcmFleet(fleet))
        finally:
            await fleet.stop()
            await host.stop()

    run_virtually(run())


def test_manifests_reach_the_selected_clusters_and_follow_a_drain() -> None:
    async def steps(ocm: OcmFleet) -> None:
        await ocm.create_placement(numberOfClusters=2)
        template = {"workload": {"manifests": [CONFIG_MAP]}}
        spec = {"placementRefs": [{"name": "p"}], "manifestWorkTemplate": template}
        await ocm.create(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet", "web", spec)
        await asyncio.sleep(20)
        assert await ocm.selected_clusters() == await ocm.members_with_config_map() == ["m1", "m2"]
        status = (await ocm.client.get(REPLICA_SETS, "default", "web"))["status"]
        assert {one["type"]: one["status"] for one in status["conditions"]} == {
            "PlacementVerified": "True",
            "PlacementRolledOut": "True",
            "ManifestworkApplied": "True",
        }
        drain = {"spec": {"taints": [{"key": "drain", "effect": "NoSelect"}]}}
        await ocm.client.patch(MANAGED, "", "m1", drain)
        await asyncio.sleep(30)
        assert await ocm.selected_clusters() == await ocm.members_with_config_map() == ["m2", "m3"]
        taints = (await ocm.client.get(FLEET, "", "m1"))["spec"]["taints"]
        assert [(taint["key"], taint["effect"]) for taint in taints] == [("drain", "NoSchedule")]

    run_scenario(steps)


def test_object_of_two_manifestworks_stays_until_both_are_deleted() -> None:
    async def steps(ocm: OcmFleet) -> None:
        works = resource_for(f"{WORKS}/v1", "ManifestWork")
        for name in ("a", "b"):
            spec = {"workload": {"manifests": [CONFIG_MAP]}}
            metadata = {"name": name, "namespace": "m1"}
            raw = {"apiVersion": works.api_version, "kind": "ManifestWork", "metadata": metadata, "spec": spec}
            await ocm.client.create(works, raw)
            await asyncio.sleep(5)
        member = ocm.fleet.world.members["m1"].client
        first = await member.get(CONFIG_MAPS, "default", "x")
        assert first["metadata"]["annotations"]["trimtab.dev/manifestwork"] == "b"
        await ocm.client.delete(works, "m1", "b")
        await asyncio.sleep(5)
        kept = await member.get(CONFIG_MAPS, "default", "x")
        assert kept["metadata"]["uid"] == first["metadata"]["uid"]
        assert kept["metadata"]["annotations"]["trimtab.dev/manifestwork"] == "a"
        await ocm.client.delete(works, "m1", "a")
        await asyncio.sleep(5)
        assert await ocm.members_with_config_map() == []

    run_scenario(steps)


def test_deleting_a_managed_cluster_removes_the_cluster_from_the_fleet() -> None:
    async def steps(ocm: OcmFleet) -> None:
        await ocm.create_placement()
        await ocm.client.delete(MANAGED, "", "m3")
        await asyncio.sleep(60)
        for resource in (MANAGED, FLEET):
            names = [one["metadata"]["name"] for one in (await ocm.client.list(resource)).items]
            assert names == ["m1", "m2"]
        assert await ocm.selected_clusters() == ["m1", "m2"]

    run_scenario(steps)


def test_the_debug_endpoint_explains_a_placement() -> None:
    async def steps(ocm: OcmFleet) -> None:
        await ocm.create_placement(numberOfClusters=1)
        await asyncio.sleep(5)
        response = await ocm.client.fetch("/debug/placements/default/p")
        debug = msgspec.json.decode(response.body)
        assert response.code == 200
        assert [step["name"] for step in debug["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]
        assert debug["aggregatedScores"][0] == {"clusterName": "m1", "score": 200}
        assert (await ocm.client.fetch("/debug/placements/default/nosuch")).code == 404

    run_scenario(steps)


def test_a_better_score_moves_a_workload_only_when_it_lasts() -> None:
    async def steps(ocm: OcmFleet) -> None:
        for cluster, value in (("m1", 0), ("m2", 80), ("m3", -50)):
            await ocm.set_score(cluster, value)
        placement = {
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            "prioritizerPolicy": {"mode": "Exact", "configurations": [{"scoreCoordinate": ADD_ON, "weight": 1}]},
        }
        selectors = [{"apiVersion": "v1", "kind": "ConfigMap"}]
        spec = {"resourceSelectors": selectors, "placement": placement}
        await ocm.create("policy.karmada.io/v1alpha1", "PropagationPolicy", "p", spec)
        await ocm.client.create(CONFIG_MAPS, CONFIG_MAP)
        await asyncio.sleep(20)
        assert await ocm.members_with_config_map() == ["m2"]
        for _ in range(10):
            await ocm.set_score("m3", 100)
            await asyncio.sleep(60)
            await ocm.set_score("m3", -50)
            await asyncio.sleep(60)
        assert await ocm.members_with_config_map() == ["m2"], "a score that flaps moves nothing"
        await ocm.set_score("m3", 100)
        await asyncio.sleep(400)
        assert await ocm.members_with_config_map() == ["m3"]
        binding = await ocm.client.get(BINDINGS, "default", "x-configmap")
        assert "ScoreChange" in binding["metadata"]["annotations"]["trimtab.dev/reschedule-request"]

    run_scenario(steps)


def test_a_settled_fleet_with_placements_writes_nothing_for_an_hour() -> None:
    async def steps(ocm: OcmFleet) -> None:
        for cluster, value in (("m1", 0), ("m2", 80), ("m3", 80)):
            await ocm.set_score(cluster, value)
        ranked = {"mode": "Exact", "configurations": [{"scoreCoordinate": ADD_ON, "weight": 1}]}
        await ocm.create_placement(numberOfClusters=2, prioritizerPolicy=ranked, sortBy="Score")
        await ocm.create(f"{CLUSTERS}/v1beta1", "Placement", "odd", {"prioritizerPolicy": {"mode": "Odd"}})
        work = {
            "manifestWorkTemplate": {"workload": {"manifests": [CONFIG_MAP]}},
            "placementRefs": [{"name": "p", "rolloutStrategy": {"type": "Progressive", "progressive": {}}}],
        }
        await ocm.create(f"{WORKS}/v1alpha1", "ManifestWorkReplicaSet", "set", work)
        for name, placement in (("ranked", {"prioritizerPolicy": ranked}), ("led", {"placementRef": {"name": "p"}})):
            selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]
            spec = {"resourceSelectors": selectors, "placement": placement}
            await ocm.create("policy.karmada.io/v1alpha1", "PropagationPolicy", name, spec)
            await ocm.client.create(CONFIG_MAPS, CONFIG_MAP | {"metadata": {"name": name, "namespace": "default"}})
        await asyncio.sleep(10)
        taint = {"key": "guest", "effect": "NoSelectIfNew"}
        await ocm.client.patch(MANAGED, "", "m3", {"spec": {"taints": [taint]}})
        await asyncio.sleep(600)
        assert await ocm.selected_clusters() == ["m2", "m3"]
        assert await ocm.members_with_config_map() == ["m2", "m3"]

        store = ocm.fleet.host.store

        def revisions() -> dict[str, int]:
            """Revisions of all objects except events, which expire."""
            entries = store.list("/registry/").entries
            return {entry.key: entry.mod_revision for entry in entries if "/events/" not in entry.key}

        before, revision = revisions(), store.revision
        await asyncio.sleep(3600)
        assert revisions() == before
        assert [entry.key for entry in store.list("/registry/").entries if entry.mod_revision > revision] == []

    run_scenario(steps)


def test_the_debug_endpoint_requires_get_or_create_on_placements() -> None:
    async def steps(ocm: OcmFleet) -> None:
        await ocm.create_placement(numberOfClusters=1)
        await asyncio.sleep(5)
        role = {"rules": [{"apiGroups": [CLUSTERS], "resources": ["placements"], "verbs": ["get", "create"]}]}
        subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "placer"}
        for kind, body in (("Role", role), ("RoleBinding", {"subjects": subjects, "roleRef": reference})):
            rbac = "rbac.authorization.k8s.io/v1"
            raw = {"apiVersion": rbac, "kind": kind, "metadata": {"name": "placer", "namespace": "default"}, **body}
            await ocm.client.create(resource_for(rbac, kind), raw)

        async def debug(method: str, path: str, user: str, body: Any = None) -> tuple[int, Any]:
            encoded = msgspec.json.encode(body) if body is not None else b""
            request = Request(method, f"/debug/placements/{path}", {}, {}, body=encoded, certificate_user=User(user))
            response = await ocm.fleet.host.handler.handle(request)
            assert isinstance(response, Response)
            return response.code, msgspec.json.decode(response.body)

        code, found = await debug("GET", "default/p", "alice")
        assert (code, found["placement"]["spec"]["numberOfClusters"]) == (200, 1)
        taint = {"labelSelector": {"matchExpressions": [{"key": "no", "operator": "Exists"}]}}
        hypothetical = {"spec": {"predicates": [{"requiredClusterSelector": taint}]}}
        code, found = await debug("POST", "default/if", "alice", hypothetical)
        assert (code, found["filteredPipelineResults"][0]) == (200, {"name": "Predicate"})
        assert found["placement"]["metadata"] == {"name": "if", "namespace": "default"}
        assert (await debug("GET", "default/nosuch", "alice")) == (404, {"error": "placement 'nosuch' not found"})
        assert (await debug("POST", "default/if", "alice", ["no"]))[0] == 400
        for user, path in (("bob", "default/p"), ("alice", "kube-system/p")):
            with pytest.raises(Forbidden, match="cannot get resource"):
                await debug("GET", path, user)

    run_scenario(steps)


def test_placement_decisions_have_the_shape_that_argo_cd_reads() -> None:
    """Its cluster decision resource generator lists by label and takes `clusterName` of every entry of `status.decisions`."""

    async def steps(ocm: OcmFleet) -> None:
        await ocm.create_placement(numberOfClusters=2)
        await asyncio.sleep(5)
        found = await ocm.client.list(DECISIONS, "default", labels=f"{CLUSTERS}/placement=p")
        names = []
        for resource in found.items:
            assert (resource["apiVersion"], resource["kind"]) == (f"{CLUSTERS}/v1beta1", "PlacementDecision")
            assert isinstance(resource["status"]["decisions"], list)
            names += [entry["clusterName"] for entry in resource["status"]["decisions"]]
        assert names == ["m1", "m2"]
        assert (DECISIONS.group, DECISIONS.plural) == (CLUSTERS, "placementdecisions")
        none = await ocm.client.list(DECISIONS, "default", labels=f"{CLUSTERS}/placement=other")
        assert none.items == []

    run_scenario(steps)
