"""Invariants of every decision about clusters, for random fleets and policies."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import ApplicationFailoverBehavior, FailoverBehavior
from trimtab.api.kinds.work import ActiveEviction, ResourceBinding
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.quantity import from_int, from_milli, parse_quantity
from trimtab.clock import EPOCH
from trimtab.decide.explain import explain
from trimtab.decide.feasible import filters_for
from trimtab.decide.fleet import ExternalValue, Fleet
from trimtab.decide.framework import filter_mask, filters
from trimtab.decide.karmada import BindingDecision, decide, decide_all
from trimtab.decide.request import (
    AGGREGATED,
    BY_SCORE,
    DUPLICATED,
    DYNAMIC,
    STATIC,
    PlacementRequest,
    placement_request_of,
)
from trimtab.plugins import load

load()
NAMES = [f"m{number}" for number in range(9)]
names = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)
profiles = st.sampled_from([TRIMTAB, UPSTREAM])
cases = example_settings(40, thorough=80, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@st.composite
def clusters(draw: st.DrawFn, name: str) -> dict[str, Any]:
    pods, cpu = draw(st.integers(0, 30)), draw(st.integers(0, 16))
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": draw(st.sampled_from([{}, {"env": "prod"}, {"env": "dev"}]))},
        "spec": {"region": draw(st.sampled_from(["", "r1", "r2", "r3"])), "provider": draw(st.sampled_from(["", "p"]))},
        "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]},
    }
    if draw(st.integers(0, 9)):
        allocatable = {"pods": str(pods), "cpu": str(cpu), "memory": f"{draw(st.integers(0, 32))}Gi"}
        body["status"]["resourceSummary"] = {"allocatable": allocatable, "allocated": {"cpu": "100m"}}
    if draw(st.integers(0, 7)) == 0:
        body["spec"]["taints"] = [{"key": "maint", "effect": "NoSchedule"}]
    if draw(st.integers(0, 9)) == 0:
        body["metadata"]["deletionTimestamp"] = "2029-01-01T00:00:00Z"
    if draw(st.integers(0, 9)) == 0:
        body["status"]["apiEnablements"] = []
    return body


@st.composite
def fleets(draw: st.DrawFn) -> list[dict[str, Any]]:
    present = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return [draw(clusters(name)) for name in present]


affinities = st.one_of(
    st.just({}),
    st.builds(lambda n: {"clusterNames": n}, names),
    st.builds(lambda n: {"exclude": n}, names),
    st.just({"labelSelector": {"matchLabels": {"env": "prod"}}}),
    st.just({"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}}),
    st.just({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["r1", "r2"]}]}}),
)
weighted = st.lists(
    st.builds(lambda a, w: {"targetCluster": a, "weight": w}, affinities, st.integers(1, 5)), min_size=1, max_size=3
)
schedulings = st.one_of(
    st.none(),
    st.just({"replicaSchedulingType": "Duplicated"}),
    st.just({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}),
    st.builds(
        lambda preference: {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": preference,
        },
        st.one_of(
            st.just({"dynamicWeight": "AvailableReplicas"}),
            st.just({"dynamicWeight": "Score"}),
            st.builds(lambda w: {"staticWeightList": w}, weighted),
        ),
    ),
)
PRIORITIZERS = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "carbon", "scoreName": "green"}}, "weight": 2},
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}, "weight": -1},
    ],
}


@st.composite
def placements(draw: st.DrawFn) -> dict[str, Any]:
    placement: dict[str, Any] = {"replicaScheduling": draw(schedulings)}
    variant = draw(st.integers(0, 3))
    if variant == 1:
        placement["clusterAffinity"] = draw(affinities)
    if variant == 2:
        terms = draw(st.lists(affinities, min_size=1, max_size=3))
        placement["clusterAffinities"] = [{"affinityName": f"g{i}", **term} for i, term in enumerate(terms)]
    if variant == 3 and _divides_by_capacity(placement):
        overflow = [{"affinityName": "more", **draw(affinities)}]
        placement["clusterAffinities"] = [
            {"affinityName": "g0", "clusterNames": draw(names) or ["m0"], "overflowAffinities": overflow}
        ]
    if draw(st.booleans()):
        placement["clusterTolerations"] = [{"key": "maint", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        low = draw(st.integers(1, 3))
        placement["spreadConstraints"] = [
            {"spreadByField": "cluster", "minGroups": low, "maxGroups": low + draw(st.integers(0, 3))}
        ]
        if draw(st.booleans()):
            fewest = draw(st.integers(1, 2))
            placement["spreadConstraints"].append(
                {"spreadByField": "region", "minGroups": fewest, "maxGroups": fewest + draw(st.integers(0, 2))}
            )
    if draw(st.integers(0, 3)) == 0:
        placement["prioritizerPolicy"] = PRIORITIZERS
    return placement


def _divides_by_capacity(placement: dict[str, Any]) -> bool:
    scheduling = placement["replicaScheduling"] or {}
    preference = scheduling.get("weightPreference", {})
    aggregated = scheduling.get("replicaDivisionPreference") == "Aggregated"
    return aggregated or preference.get("dynamicWeight") == "AvailableReplicas"


@st.composite
def bindings(draw: st.DrawFn) -> ResourceBinding:
    spec: dict[str, Any] = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app", "uid": draw(st.sampled_from("abc"))},
        "placement": draw(placements()),
        "replicas": draw(st.integers(0, 20)),
        "clusters": [{"name": name, "replicas": draw(st.integers(0, 6))} for name in draw(names)],
    }
    if draw(st.booleans()):
        spec["replicaRequirements"] = {"resourceRequest": {"cpu": draw(st.sampled_from(["100m", "1", "2500m"]))}}
    if draw(st.integers(0, 5)) == 0:
        spec["gracefulEvictionTasks"] = [{"fromCluster": name} for name in draw(names)]
    if draw(st.integers(0, 5)) == 0:
        spec["activeEvictionHistory"] = [{"clusterName": "m1", "creationTimestamp": "2029-12-31T23:55:00Z"}]
    status = {"schedulerObservingAffinityName": draw(st.sampled_from(["", "g1"]))}
    if draw(st.integers(0, 3)) == 0:
        spec["rescheduleTriggeredAt"] = "2029-06-01T00:00:01Z"
        status["lastScheduledTime"] = "2029-06-01T00:00:00Z"
    body = {"metadata": {"namespace": "n", "name": "app-deployment"}, "spec": spec, "status": status}
    return msgspec.convert(body, ResourceBinding, strict=False)


SCORES = {"carbon": {name: ExternalValue({"green": 10 * i}) for i, name in enumerate(NAMES)}}


def fleet_of(bodies: Iterable[dict[str, Any]]) -> Fleet[Cluster]:
    members = [msgspec.convert(body, Cluster, strict=False) for body in bodies]
    return Fleet.of(members, now=EPOCH, external_values={"AddOnPlacementScore/carbon": SCORES["carbon"]})


def apply_decision(
    decision: BindingDecision, fleet: Fleet[Cluster], binding: ResourceBinding
) -> tuple[Fleet[Cluster], ResourceBinding]:
    """The fleet and the binding after the decision is applied: pods run where it placed them."""
    had, request = dict(decision.request.placed), dict(decision.request.resource_request or ())
    changed = []
    for name, replicas in {**dict.fromkeys(had, 0), **dict(decision.clusters)}.items():
        cluster = fleet.get(name)
        summary = cluster.status.resource_summary if cluster is not None else None
        if cluster is None or summary is None:
            continue
        gained = replicas - had.get(name, 0)
        allocated = dict(summary.allocated)
        allocated["pods"] = from_int(int(parse_quantity(allocated.get("pods", 0))) + gained)
        for resource, amount in request.items():
            write = from_milli if resource == "cpu" else from_int
            scale = 1000 if resource == "cpu" else 1
            allocated[resource] = write(int(parse_quantity(allocated.get(resource, 0)) * scale) + gained * amount)
        changed.append(cluster.but(status=cluster.status.but(resource_summary=summary.but(allocated=allocated))))
    status = binding.status.but(
        scheduler_observing_affinity_name=decision.affinity_name, last_scheduled_time=EPOCH - timedelta(days=1)
    )
    return fleet.change(changed), binding.but(spec=binding.spec.but(clusters=decision.targets), status=status)


def has_replicas(request: PlacementRequest) -> bool:
    return request.replicas > 0 or request.resource_request is not None


@cases
@given(fleets(), bindings(), profiles)
def test_replicas_are_conserved(bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile) -> None:
    decision = decide(placement_request_of(binding), fleet_of(bodies), profile)
    shares = [replicas for _, replicas in decision.clusters]
    if decision.ok and has_replicas(decision.request):
        if decision.request.placement.strategy == DUPLICATED:
            assert all(replicas == binding.spec.replicas for replicas in shares)
        else:
            assert sum(shares) == binding.spec.replicas
    elif decision.ok:
        assert not any(shares)
    else:
        assert shares == []


@cases
@given(fleets(), bindings(), profiles)
def test_no_filtered_cluster_is_a_target(
    bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile
) -> None:
    fleet = fleet_of(bodies)
    decision = decide(placement_request_of(binding), fleet, profile)
    request = msgspec.structs.replace(decision.request, group=decision.group)
    for name, _ in decision.clusters:
        cluster = fleet.get(name)
        assert cluster is not None
        assert cluster.metadata.deletion_timestamp is None
        for plugin in filters_for(request):
            spared = plugin.skips_placed and name in request.placed_clusters
            named = plugin.targets is None or name in plugin.targets(request)
            assert spared or not named or plugin.prepare(request, fleet)(cluster) is None


@cases
@given(fleets(), bindings())
def test_no_cluster_with_an_untolerated_taint_gets_more_of_a_divided_workload(
    bodies: list[dict[str, Any]], binding: ResourceBinding
) -> None:
    fleet = fleet_of(bodies)
    decision = decide(placement_request_of(binding), fleet, TRIMTAB)
    before = dict(decision.request.placed)
    check = filters["TaintToleration"].prepare(decision.request, fleet)
    if decision.request.placement.strategy != DUPLICATED:
        for name, replicas in decision.clusters:
            assert check(fleet.targets[fleet.index[name]]) is None or replicas <= before[name]


@cases
@given(fleets(), bindings(), profiles, st.randoms(use_true_random=False))
def test_order_of_clusters_does_not_matter(
    bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile, rng: Any
) -> None:
    shuffled = rng.sample(bodies, len(bodies))
    one, other = (
        decide(placement_request_of(binding), fleet_of(bodies), profile),
        decide(placement_request_of(binding), fleet_of(shuffled), profile),
    )
    assert (one.clusters, one.condition, one.affinity_name) == (other.clusters, other.condition, other.affinity_name)


@cases
@given(fleets(), bindings(), profiles)
def test_second_decision_equals_the_first(
    bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile
) -> None:
    """Without region selection: on the second run a share counts for its region, which may then need fewer."""
    assume(
        not any(c.spread_by_field == "region" for c in placement_request_of(binding).placement.spec.spread_constraints)
    )
    fleet = fleet_of(bodies)
    first = decide(placement_request_of(binding), fleet, profile)
    assume(first.ok)
    later_fleet, later = apply_decision(first, fleet, binding.but(spec=binding.spec.but(reschedule_triggered_at=None)))
    second = decide(placement_request_of(later), later_fleet, profile)
    assert second.clusters == first.clusters
    assert second.affinity_name == first.affinity_name


@cases
@given(fleets(), bindings(), profiles, st.sampled_from([-1, 1]))
def test_scaling_by_one_changes_one_share_by_one(
    bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile, step: int
) -> None:
    plan = placement_request_of(binding).placement
    assume(plan.strategy in (STATIC, DYNAMIC, AGGREGATED, BY_SCORE) and not plan.spread_fields)
    assume(not any(term.overflow_affinities for term in plan.groups))
    fleet = fleet_of(bodies)
    first = decide(placement_request_of(binding), fleet, profile)
    assume(first.ok and has_replicas(first.request) and binding.spec.replicas + step > 0)
    later_fleet, later = apply_decision(first, fleet, binding.but(spec=binding.spec.but(reschedule_triggered_at=None)))
    scaled = later.but(spec=later.spec.but(replicas=binding.spec.replicas + step))
    second = decide(placement_request_of(scaled), later_fleet, profile)
    assume(second.ok and second.affinity_name == first.affinity_name)
    before, after = dict(first.clusters), dict(second.clusters)
    changes = [after.get(name, 0) - before.get(name, 0) for name in before.keys() | after.keys()]
    assert [change for change in changes if change] == [step]


@cases
@given(fleets(), st.lists(bindings(), min_size=1, max_size=4), st.lists(fleets(), max_size=3), profiles)
def test_array_filters_agree_with_single_cluster_filters(
    bodies: list[dict[str, Any]],
    several: list[ResourceBinding],
    changes: list[list[dict[str, Any]]],
    profile: Profile,
) -> None:
    """A long-lived fleet, its arrays refreshed column by column, decides like a newly built one."""
    fleet = fleet_of(bodies)
    for change in [[], *changes]:
        fleet = fleet.change([msgspec.convert(body, Cluster, strict=False) for body in change], removed=["m8"])
        for binding in several:
            request, fresh = (
                placement_request_of(binding),
                Fleet.of(fleet, now=fleet.now, external_values=fleet.external_values),
            )
            for plugin in filters_for(request):
                check, about = (
                    plugin.prepare(request, fresh),
                    None if plugin.targets is None else plugin.targets(request),
                )
                one_by_one = [(about is not None and c.name not in about) or check(c) is None for c in fresh]
                assert filter_mask(plugin, request, fleet).tolist() == one_by_one
            ours, rebuilt = decide(request, fleet, profile), decide(request, fresh, profile)
            assert (ours.clusters, ours.condition) == (rebuilt.clusters, rebuilt.condition)


@cases
@given(fleets(), bindings(), profiles)
def test_explanation_agrees_with_decision(
    bodies: list[dict[str, Any]], binding: ResourceBinding, profile: Profile
) -> None:
    decision = decide(placement_request_of(binding), fleet_of(bodies), profile)
    story = explain(decision)
    assert [(c.name, c.replicas) for c in story.clusters if c.replicas is not None] == decision.clusters
    assert not any(c.refused for c in story.clusters if c.selected or c.replicas is not None)
    assert story.ok == decision.ok
    if decision.failure is not None and decision.failure.kind == "FitError" and not decision.tried_groups:
        assert all(c.refused for c in story.clusters)


@cases
@given(fleets(), st.lists(bindings(), min_size=2, max_size=5))
def test_batch_never_assigns_the_same_capacity_twice(
    bodies: list[dict[str, Any]], several: list[ResourceBinding]
) -> None:
    """Strategies that divide by capacity: all replicas gained in one batch fit into the free pods."""
    fleet = fleet_of(bodies)
    requests = [placement_request_of(binding) for binding in several]
    requests = [
        request
        for request in requests
        if request.placement.strategy in (DYNAMIC, AGGREGATED, BY_SCORE) and not request.fresh
    ]
    decisions, _ = decide_all(requests, fleet, TRIMTAB)
    gained: dict[str, int] = {}
    for decision in decisions:
        had = dict(decision.request.placed)
        for name, replicas in decision.clusters:
            gained[name] = gained.get(name, 0) + max(0, replicas - had.get(name, 0))
    for name, replicas in gained.items():
        cluster = fleet.get(name)
        summary = cluster.status.resource_summary if cluster is not None else None
        assert replicas <= (int(parse_quantity(summary.allocatable["pods"])) if summary is not None else 0)


histories = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 1200)), max_size=4, unique_by=lambda entry: entry[0]
)


@cases
@given(fleets(), bindings(), profiles, histories, st.sampled_from([None, 0, 1, 300, 900]))
def test_blocked_cluster_is_not_used_before_its_block_expires(
    bodies: list[dict[str, Any]],
    binding: ResourceBinding,
    profile: Profile,
    history: list[tuple[str, int]],
    block: int | None,
) -> None:
    """Ages are in seconds; a policy without a value blocks for ten minutes, and 0 blocks forever."""
    entries = tuple(ActiveEviction(cluster_name=n, creation_timestamp=EPOCH - timedelta(seconds=s)) for n, s in history)
    failover = FailoverBehavior(application=ApplicationFailoverBehavior(block_predecessor_seconds=block))
    binding = binding.but(spec=binding.spec.but(active_eviction_history=entries, failover=failover))
    closed = {name for name, age in history if block == 0 or age < (600 if block is None else block)}
    decision = decide(placement_request_of(binding), fleet_of(bodies), profile)
    assert closed.isdisjoint(name for name, _ in decision.clusters)
    opened = binding.but(spec=binding.spec.but(active_eviction_history=()))
    if not closed:
        free = decide(placement_request_of(opened), fleet_of(bodies), profile)
        assert (decision.ok, list(decision.clusters)) == (free.ok, list(free.clusters)), (
            "an expired block still has an effect"
        )
