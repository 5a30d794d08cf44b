"""Invariants of every decision for a Placement, for random fleets and specs."""

from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import given
from views import NOON

from properties.hypothesis_settings import example_settings
from trimtab import plugins
from trimtab.api.kind import find_kind
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementDecision
from trimtab.api.value import Object
from trimtab.decide.ocm.decision import OcmDecision
from trimtab.decide.ocm.explain import cluster_outcomes, debug_document, totals_by_rank
from trimtab.decide.ocm.groups import decision_pages
from trimtab.decide.ocm.pipeline import decide
from trimtab.decide.ocm.request import ocm_request_of
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, PlacementSnapshot, PlacementSnapshotCache

GROUP = "cluster.open-cluster-management.io"
plugins.load()


def decode_object(kind: str, version: str, raw: dict[str, Any]) -> Any:
    declared = find_kind(f"{GROUP}/{version}", kind)
    assert declared is not None
    return declared.decode(raw)


values = st.sampled_from(["a", "b", "c"])
effects = st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"])
taints = st.fixed_dictionaries(
    {"key": values, "effect": effects},
    optional={
        "value": values,
        "timeAdded": st.integers(-200, 200).map(lambda s: (NOON + timedelta(seconds=s)).isoformat()),
    },
)
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1500m", "8Gi", "3", "0"]))


@st.composite
def clusters(draw: st.DrawFn, name: str) -> ManagedCluster:
    return decode_object(
        "ManagedCluster",
        "v1",
        {
            "metadata": {"name": name, "labels": draw(st.dictionaries(st.sampled_from(["env", "tier"]), values))},
            "spec": {"taints": draw(st.lists(taints, max_size=2))},
            "status": {
                "allocatable": draw(amounts),
                "capacity": draw(amounts),
                "clusterClaims": [{"name": "platform", "value": draw(values)}] if draw(st.booleans()) else [],
            },
        },
    )


names = st.lists(st.integers(0, 30).map(lambda n: f"c{n}"), unique=True, max_size=9)
requirements = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["env", "tier", "platform", "b a d"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
        "values": st.lists(values, max_size=2),
    }
)
selectors = st.fixed_dictionaries(
    {}, optional={"labelSelector": st.fixed_dictionaries({"matchExpressions": st.lists(requirements, max_size=2)})}
)
tolerations = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Equal", "Exists", "", "Odd"])},
    optional={
        "key": values,
        "value": values,
        "effect": effects,
        "tolerationSeconds": st.integers(-10, 300),
    },
)
built_in = st.sampled_from(["Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory"])
add_on = st.sampled_from(["cost", "load"]).map(lambda r: {"resourceName": r, "scoreName": "s"})
coordinates = st.one_of(
    built_in.map(lambda name: {"type": "BuiltIn", "builtIn": name}),
    add_on.map(lambda score: {"type": "AddOn", "addOn": score}),
)


def policies(weights: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, Any]]:
    configuration = st.fixed_dictionaries({"scoreCoordinate": coordinates, "weight": weights})
    return st.fixed_dictionaries(
        {"mode": st.sampled_from(["Additive", "Exact"]), "configurations": st.lists(configuration, max_size=3)}
    )


any_weight, any_number = st.integers(-10, 10), st.integers(-1, 12)


def specs(
    weights: st.SearchStrategy[int] = any_weight, number: st.SearchStrategy[int] = any_number
) -> st.SearchStrategy[dict[str, Any]]:
    group = st.fixed_dictionaries({"groupName": st.just("canary"), "groupClusterSelector": selectors})
    strategy = st.fixed_dictionaries(
        {"clustersPerDecisionGroup": st.sampled_from([1, 2, 5, "25%", "100%", "7"])},
        optional={"decisionGroups": st.lists(group, max_size=2)},
    )
    return st.fixed_dictionaries(
        {"prioritizerPolicy": policies(weights)},
        optional={
            "numberOfClusters": number,
            "predicates": st.lists(st.fixed_dictionaries({"requiredClusterSelector": selectors}), max_size=2),
            "tolerations": st.lists(tolerations, max_size=3),
            "decisionStrategy": st.fixed_dictionaries({"groupStrategy": strategy}),
        },
    )


def placement(spec: dict[str, Any]) -> OcmPlacement:
    return decode_object("Placement", "v1beta1", {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})


def decision(owner: str, chosen: list[str], number: int = 1) -> PlacementDecision:
    return decode_object(
        "PlacementDecision",
        "v1beta1",
        {
            "metadata": {"name": f"{owner}-decision-{number}", "namespace": "ns", "labels": {PLACEMENT_LABEL: owner}},
            "status": {"decisions": [{"clusterName": name, "reason": ""} for name in chosen]},
        },
    )


@st.composite
def hub_objects(draw: st.DrawFn) -> list[Object]:
    fleet = [draw(clusters(name)) for name in draw(names)]
    ends = st.none() | st.integers(-100, 100).map(lambda s: (NOON + timedelta(seconds=s)).isoformat())
    scores = [
        decode_object(
            "AddOnPlacementScore",
            "v1alpha1",
            {
                "metadata": {"name": resource, "namespace": cluster.name},
                "status": {"scores": [{"name": "s", "value": draw(st.integers(-100, 100))}], "validUntil": draw(ends)},
            },
        )
        for cluster in fleet
        for resource in ("cost", "load")
        if draw(st.booleans())
    ]
    everything = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    return [
        *fleet,
        *scores,
        decision("other", draw(names)),
        decode_object("ManagedClusterSet", "v1beta2", {"metadata": {"name": "all"}, "spec": everything}),
        decode_object(
            "ManagedClusterSetBinding",
            "v1beta2",
            {"metadata": {"name": "all", "namespace": "ns"}, "spec": {"clusterSet": "all"}},
        ),
    ]


def decide_placement(spec: dict[str, Any], snapshot: PlacementSnapshot) -> OcmDecision:
    return decide(ocm_request_of(placement(spec), snapshot), snapshot)


def observable_result(result: OcmDecision, snapshot: PlacementSnapshot) -> Any:
    ranked = snapshot.fleet.names_at(result.result.by_rank)
    return ranked, result.groups, result.group_error, result.status, result.result.recheck_at, result.result.unscheduled


QUICK = example_settings(40, thorough=80)


@QUICK
@given(hub_objects(), specs(), st.randoms())
def test_order_of_clusters_does_not_matter(world: list[Object], spec: dict[str, Any], rng: Any) -> None:
    shuffled = list(world)
    rng.shuffle(shuffled)
    one, other = PlacementSnapshotCache(world).snapshot(NOON), PlacementSnapshotCache(shuffled).snapshot(NOON)
    assert observable_result(decide_placement(spec, one), one) == observable_result(
        decide_placement(spec, other), other
    )


@QUICK
@given(hub_objects(), specs())
def test_chosen_clusters_pass_all_filters_and_have_the_best_totals(world: list[Object], spec: dict[str, Any]) -> None:
    snapshot = PlacementSnapshotCache(world).snapshot(NOON)
    request = ocm_request_of(placement(spec), snapshot)
    found = decide(request, snapshot)
    by_name = {fate.cluster: fate for fate in cluster_outcomes(request, snapshot)}
    selected = set(snapshot.fleet.names_at(found.result.chosen))
    assert selected == {name for name, fate in by_name.items() if fate.outcome == "Selected"}
    assert not any(fate.reason for name, fate in by_name.items() if name in selected)
    if found.result.totals is not None:
        ranking = totals_by_rank(found.result.totals, snapshot.fleet.names_at(found.result.feasible))
        assert snapshot.fleet.names_at(found.result.by_rank) == [name for name, _ in ranking[: found.chosen_count]]
        refused = {name for name, fate in by_name.items() if fate.outcome == "Filtered"}
        assert refused == set(by_name) - {name for name, _ in ranking}


@QUICK
@given(hub_objects(), specs())
def test_debug_response_has_the_same_totals(world: list[Object], spec: dict[str, Any]) -> None:
    snapshot = PlacementSnapshotCache(world).snapshot(NOON)
    request = ocm_request_of(placement(spec), snapshot)
    found, debug = decide(request, snapshot).result, debug_document(placement(spec), request, snapshot)
    expected = totals_by_rank(found.totals, snapshot.fleet.names_at(found.feasible))
    assert [(entry["clusterName"], entry["score"]) for entry in debug.get("aggregatedScores", ())] == expected
    for entry in debug.get("prioritizeResults", ()):
        assert entry["weight"] != 0


@QUICK
@given(hub_objects(), specs(weights=st.integers(1, 10)))
def test_decision_is_stable_after_it_is_stored(world: list[Object], spec: dict[str, Any]) -> None:
    spec = {**spec, "prioritizerPolicy": {**spec["prioritizerPolicy"], "mode": "Additive"}}
    snapshots = PlacementSnapshotCache(world)
    snapshot = snapshots.snapshot(NOON)
    first = decide_placement(spec, snapshot)
    snapshots.update(None, decision("p", snapshot.fleet.names_at(first.result.chosen)))
    again = snapshots.snapshot(NOON)
    assert decide_placement(spec, again).result.chosen == first.result.chosen


@QUICK
@given(hub_objects(), specs(number=st.integers(0, 9)))
def test_larger_number_of_clusters_keeps_the_chosen_ones(world: list[Object], spec: dict[str, Any]) -> None:
    snapshot = PlacementSnapshotCache(world).snapshot(NOON)
    number = spec.get("numberOfClusters", 3)
    fewer = decide_placement({**spec, "numberOfClusters": number}, snapshot).result.chosen
    more = decide_placement({**spec, "numberOfClusters": number + 1}, snapshot).result.chosen
    assert set(fewer) <= set(more)
    assert len(more) - len(fewer) <= 1


@QUICK
@given(hub_objects(), hub_objects(), specs())
def test_updated_snapshot_decides_like_a_new_one(
    before: list[Object], after: list[Object], spec: dict[str, Any]
) -> None:
    def key(thing: Object) -> tuple[str, str, str]:
        return type(thing).__name__, thing.namespace, thing.name

    old, new = {key(thing): thing for thing in before}, {key(thing): thing for thing in after}
    snapshots = PlacementSnapshotCache(before)
    decide_placement(spec, snapshots.snapshot(NOON))
    for which in sorted(old.keys() | new.keys()):
        snapshots.update(old.get(which), new.get(which))
    later = NOON + timedelta(seconds=50)
    followed, fresh = snapshots.snapshot(later), PlacementSnapshotCache(after).snapshot(later)
    assert observable_result(decide_placement(spec, followed), followed) == observable_result(
        decide_placement(spec, fresh), fresh
    )


@QUICK
@given(hub_objects(), specs())
def test_groups_contain_each_chosen_cluster_once_in_small_pages(world: list[Object], spec: dict[str, Any]) -> None:
    snapshot = PlacementSnapshotCache(world).snapshot(NOON)
    found = decide_placement(spec, snapshot)
    grouped = [name for group in found.groups for name in group.clusters]
    assert len(grouped) == len(set(grouped))
    if not found.group_error:
        assert sorted(grouped) == snapshot.fleet.names_at(found.result.chosen)
    assert [name for page in decision_pages("p", found.groups) for name in page.clusters] == grouped
    assert all(len(page.clusters) <= 100 for page in decision_pages("p", found.groups))
