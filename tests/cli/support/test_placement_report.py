"""The report about a Placement: the decision and the reason for every cluster."""

import msgspec
import pytest

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.cli.support.placement_report import explain_placement
from trimtab.client.client import resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

GROUP = "cluster.open-cluster-management.io"


def report(*objects: Raw, name: str = "p", as_json: bool = False, status: Raw | None = None) -> str:
    async def run() -> str:
        load_declarations()
        clock = LoopClock()
        server = ApiServer(Store(), ApiServerSettings(clock=clock))
        await server.start()
        client = LocalClient(server)
        try:
            for raw in objects:
                kind = find_kind(raw["apiVersion"], raw["kind"])
                assert kind is not None
                await client.create(resource_of(kind), raw)
                if status is not None and kind.name == "AddOnPlacementScore":
                    place = raw["metadata"]["namespace"], raw["metadata"]["name"]
                    await client.patch(resource_of(kind), *place, {"status": status}, subresource="status")
            return await explain_placement(client, "default", name, clock.now(), as_json=as_json)
        finally:
            await server.stop()

    return run_virtually(run())


def ocm_object(version: str, kind: str, name: str, namespace: str = "", **rest: Raw) -> Raw:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, **rest}


def fleet() -> list[Raw]:
    tainted = {"hubAcceptsClient": True, "taints": [{"key": "gone", "effect": "NoSelect"}]}
    everybody = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    return [
        ocm_object("v1", "ManagedCluster", "a", spec={"hubAcceptsClient": True}),
        ocm_object("v1", "ManagedCluster", "b", spec=tainted),
        ocm_object("v1", "ManagedCluster", "c", spec={"hubAcceptsClient": True}),
        ocm_object("v1beta2", "ManagedClusterSet", "global", spec=everybody),
        ocm_object("v1beta2", "ManagedClusterSetBinding", "global", "default", spec={"clusterSet": "global"}),
        ocm_object("v1beta1", "Placement", "p", "default", spec={"numberOfClusters": 1}),
    ]


def test_every_cluster_has_a_reason() -> None:
    text = report(*fleet())
    first, decided, _, headings, a, b, c = text.splitlines()
    assert first == "Placement default/p: All cluster decisions scheduled"
    assert decided == "Current decision: no cluster"
    assert headings.split() == ["CLUSTER", "SELECTED", "TOTAL", "SCORES", "REASON"]
    assert a.split()[:7] == ["a", "yes", "100", "Balance", "100,", "Steady", "0"]
    assert b.split()[:3] == ["b", "no", "TaintToleration:"]
    assert c.endswith("feasible, but other clusters have a higher score or an earlier name")


def test_missing_and_expired_scores_are_shown() -> None:
    def configured(resource: str, score: str) -> Raw:
        return {
            "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}},
            "weight": 2,
        }

    policy = {"mode": "Exact", "configurations": [configured("price", "hour"), configured("price", "day")]}
    score = ocm_object("v1alpha1", "AddOnPlacementScore", "price", "a")
    given = {"scores": [{"name": "hour", "value": 7}]}
    scored = ocm_object("v1beta1", "Placement", "scored", "default", spec={"prioritizerPolicy": policy})
    text = report(
        *fleet(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        score,
        scored,
        name="scored",
        status=given,
    )
    a, _, c = text.splitlines()[-3:]
    assert "2 x AddOn/price/hour 7" in a
    assert a.endswith("among the best; AddOnPlacementScore price has no score day")
    assert c.endswith("among the best; there is no AddOnPlacementScore price")
    over = report(
        *fleet(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        score,
        scored,
        name="scored",
        status={**given, "validUntil": "2001-01-01T00:00:00Z"},
    )
    assert "AddOnPlacementScore price expired at 2001-01-01 00:00:00Z" in over


def test_json_is_the_document_of_the_debug_server() -> None:
    document = msgspec.json.decode(report(*fleet(), as_json=True))
    assert [step["name"] for step in document["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]


def test_misconfigured_placement_is_reported() -> None:
    odd = ocm_object("v1beta1", "Placement", "odd", "default", spec={"prioritizerPolicy": {"mode": "Odd"}})
    assert "The Placement is misconfigured: incorrect prioritizer policy mode: Odd" in report(*fleet(), odd, name="odd")


def test_missing_placement_is_named() -> None:
    with pytest.raises(InputError, match="there is no Placement nosuch in namespace default"):
        report(name="nosuch")
