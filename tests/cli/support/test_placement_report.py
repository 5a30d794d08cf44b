"""People are told why a Placement is answered as it is, cluster by cluster."""

import msgspec
import pytest

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.cli.support.placement_report import placement_explained
from trimtab.client.client import resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import InputFault
from trimtab.runtime.declarations import learn_everything
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

GROUP = "cluster.open-cluster-management.io"


def told(*objects: Raw, name: str = "p", as_json: bool = False, status: Raw | None = None) -> str:
    async def run() -> str:
        learn_everything()
        clock = LoopClock()
        server = ApiServer(Store(), Settings(clock=clock))
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
            return await placement_explained(client, "default", name, clock.now(), as_json=as_json)
        finally:
            await server.stop()

    return run_virtually(run())


def thing(version: str, kind: str, name: str, namespace: str = "", **rest: Raw) -> Raw:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, **rest}


def fleet() -> list[Raw]:
    tainted = {"hubAcceptsClient": True, "taints": [{"key": "gone", "effect": "NoSelect"}]}
    everybody = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    return [
        thing("v1", "ManagedCluster", "a", spec={"hubAcceptsClient": True}),
        thing("v1", "ManagedCluster", "b", spec=tainted),
        thing("v1", "ManagedCluster", "c", spec={"hubAcceptsClient": True}),
        thing("v1beta2", "ManagedClusterSet", "global", spec=everybody),
        thing("v1beta2", "ManagedClusterSetBinding", "global", "default", spec={"clusterSet": "global"}),
        thing("v1beta1", "Placement", "p", "default", spec={"numberOfClusters": 1}),
    ]


def test_every_cluster_has_its_reason() -> None:
    text = told(*fleet())
    first, decided, _, headings, a, b, c = text.splitlines()
    assert first == "Placement default/p: All cluster decisions scheduled"
    assert decided == "Decided for: no cluster"
    assert headings.split() == ["CLUSTER", "CHOSEN", "TOTAL", "SCORES", "WHY"]
    assert a.split()[:7] == ["a", "yes", "100", "Balance", "100,", "Steady", "0"]
    assert b.split()[:3] == ["b", "no", "TaintToleration:"]
    assert c.endswith("would do, but others are better or come first by name")


def test_scores_that_are_missing_or_over_are_told() -> None:
    def configured(resource: str, score: str) -> Raw:
        return {
            "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}},
            "weight": 2,
        }

    policy = {"mode": "Exact", "configurations": [configured("price", "hour"), configured("price", "day")]}
    score = thing("v1alpha1", "AddOnPlacementScore", "price", "a")
    given = {"scores": [{"name": "hour", "value": 7}]}
    scored = thing("v1beta1", "Placement", "scored", "default", spec={"prioritizerPolicy": policy})
    text = told(
        *fleet(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        score,
        scored,
        name="scored",
        status=given,
    )
    a, _, c = text.splitlines()[-3:]
    assert "2 x AddOn/price/hour 7" in a
    assert a.endswith("one of the best; AddOnPlacementScore price has no score day")
    assert c.endswith("one of the best; there is no AddOnPlacementScore price")
    over = told(
        *fleet(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        score,
        scored,
        name="scored",
        status={**given, "validUntil": "2001-01-01T00:00:00Z"},
    )
    assert "AddOnPlacementScore price expired at 2001-01-01 00:00:00Z" in over


def test_the_same_is_told_as_the_debug_server_tells_it() -> None:
    document = msgspec.json.decode(told(*fleet(), as_json=True))
    assert [step["name"] for step in document["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]


def test_a_placement_that_cannot_be_understood_is_told_so() -> None:
    odd = thing("v1beta1", "Placement", "odd", "default", spec={"prioritizerPolicy": {"mode": "Odd"}})
    assert "It cannot be understood: incorrect prioritizer policy mode: Odd" in told(*fleet(), odd, name="odd")


def test_a_placement_that_is_not_there_is_named() -> None:
    with pytest.raises(InputFault, match="there is no Placement nosuch in namespace default"):
        told(name="nosuch")
