"""Pod placement: decisions agree with explanations, updated snapshots with new ones."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import HOSTNAME, ZONE, node, pod, pod_affinity, topology_spread

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB
from trimtab.decide.framework import first_rejections
from trimtab.decide.pods.affinity.affinity_terms import HashableSelector
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.preempt import DisruptionLimits, Preemption, PreemptionBudget, preempt
from trimtab.decide.pods.preemption.recent_disruptions import RecentDisruptions
from trimtab.decide.pods.request import pod_request_for
from trimtab.decide.pods.schedule import (
    DEFAULT_SCHEDULER_PROFILE,
    active_filters,
    apply_decision,
    explain,
    resolvable_nodes,
    schedule,
)

APPS = ("web", "db")
apps, keys = st.sampled_from(APPS), st.sampled_from((HOSTNAME, ZONE))


@st.composite
def pod_constraints(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(("", "near", "spread", "selector", "tolerant", "port")))
    match kind:
        case "near":
            weight = draw(st.sampled_from((0, 0, 10)))
            return pod_affinity(draw(keys), draw(apps), weight=weight, anti=draw(st.booleans()))
        case "spread":
            more = {"minDomains": 3} if draw(st.booleans()) else {}
            return topology_spread(
                draw(keys), skew=draw(st.integers(1, 3)), soft=draw(st.booleans()), app=draw(apps), **more
            )
        case "selector":
            return {"nodeSelector": {"disk": "ssd"}}
        case "tolerant":
            return {"tolerations": [{"key": "old", "operator": "Exists"}]}
        case "port":
            return {"ports": (80,)}
    return {}


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"n{i}",
            cpu=draw(st.sampled_from(("0", "1", "2"))),
            memory=draw(st.sampled_from(("512Mi", "1Gi"))),
            pods=draw(st.integers(0, 6)),
            zone=draw(st.sampled_from(("", "east", "west"))),
            labels={"disk": draw(st.sampled_from(("ssd", "hdd")))},
            taints=draw(st.sampled_from(([], [], ["old:NoSchedule"], ["old:PreferNoSchedule"]))),
            cordoned=draw(st.integers(0, 9)) == 0,
            images=draw(st.sampled_from(({}, {"web:1": 300 << 20}))),
        )
        for i in range(draw(st.integers(1, 6)))
    ]


@st.composite
def random_pod(draw: st.DrawFn, name: str, on: str = "") -> Pod:
    return pod(
        name,
        on,
        cpu=draw(st.sampled_from(("0", "100m", "700m"))),
        memory=draw(st.sampled_from(("0", "64Mi", "600Mi"))),
        app=draw(apps),
        priority=draw(st.integers(0, 3)),
        **draw(pod_constraints()),
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    node_list = draw(nodes())
    running = [
        draw(random_pod(f"r{i}", f"n{draw(st.integers(0, len(node_list)))}")) for i in range(draw(st.integers(0, 8)))
    ]
    return node_list, running


@given(clusters(), random_pod("p"))
def test_decision_is_the_best_node_of_the_explanation(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    fleet = NodeSnapshot.of(*cluster)
    decision, opinions = schedule(pending_pod, fleet), explain(pending_pod, fleet)
    feasible = [opinion for opinion in opinions if opinion.rejection is None]
    assert decision.feasible_count == len(feasible)
    assert decision.node == (feasible[0].node if feasible else None)
    assert all(opinion.total <= decision.total for opinion in feasible)


@given(clusters(), random_pod("p"))
def test_filtered_node_is_never_chosen(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    fleet = NodeSnapshot.of(*cluster)
    decision = schedule(pending_pod, fleet)
    if decision.node is None:
        return
    request = pod_request_for(pending_pod, fleet)
    ((_, objection),) = first_rejections(
        active_filters(request, DEFAULT_SCHEDULER_PROFILE), request, fleet.nodes, [fleet.nodes.index[decision.node]]
    )
    assert objection is None
    here = apply_decision(decision, fleet).get(decision.node)
    assert here is not None
    requested = decision.pod.resources.requests
    assert here.free_pods >= 0
    assert all(here.free_amount(resource) >= 0 for resource in requested)


@given(clusters(), random_pod("p"), st.randoms())
def test_order_of_nodes_and_pods_does_not_matter(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod, rng: Any
) -> None:
    node_list, running = cluster
    expected = schedule(pending_pod, NodeSnapshot.of(node_list, running))
    assert (
        schedule(pending_pod, NodeSnapshot.of(rng.sample(node_list, len(node_list)), rng.sample(running, len(running))))
        == expected
    )


@given(clusters(), st.lists(st.data(), min_size=1, max_size=1), st.integers(1, 6))
def test_updated_snapshot_decides_like_a_new_one(
    cluster: tuple[list[Node], list[Pod]], data: list[Any], count: int
) -> None:
    """Arrays refreshed column by column equal arrays computed from scratch."""
    node_list, running = cluster
    incremental, bound = NodeSnapshot.of(node_list), []
    for one in running:
        schedule(one.but(spec=one.spec.but(node_name="")), incremental)
        incremental = incremental.with_pod(one)
    for i in range(count):
        pending_pod = data[0].draw(random_pod(f"p{i}"))
        fresh = NodeSnapshot.of(node_list, [*running, *bound])
        decision = schedule(pending_pod, incremental)
        assert decision == schedule(pending_pod, fresh)
        assert explain(pending_pod, incremental) == explain(pending_pod, fresh)
        incremental = apply_decision(decision, incremental)
        if decision.node is not None:
            bound.append(pending_pod.but(spec=pending_pod.spec.but(node_name=decision.node)))


@given(clusters(), random_pod("p"))
def test_removed_pods_do_not_affect_decisions(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    node_list, running = cluster
    incremental = NodeSnapshot.of(node_list, running)
    for one in running:
        schedule(pending_pod, incremental)
        incremental = incremental.without_pod(one)
    assert schedule(pending_pod, incremental) == schedule(pending_pod, NodeSnapshot.of(node_list))


@given(
    clusters(),
    random_pod("p"),
    st.dictionaries(apps, st.integers(0, 2)),
    st.tuples(st.integers(1, 25), st.integers(0, 2)),
)
def test_preemption_frees_capacity_within_budgets(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod, allowed: dict[str, int], disruptions: tuple[int, int]
) -> None:
    """It takes at most a tenth of the pods of an owner without a budget."""

    def disruptions_of(owner: str) -> RecentDisruptions:
        return RecentDisruptions(owner, *disruptions)

    fleet = NodeSnapshot.of(*cluster)
    pending_pod = pending_pod.but(spec=pending_pod.spec.but(priority=5))
    if schedule(pending_pod, fleet).node is not None:
        return
    covers = [PreemptionBudget("default", HashableSelector((("app", app),)), left) for app, left in allowed.items()]
    before = schedule(pending_pod, fleet), fleet.nodes.targets
    found = preempt(pending_pod, fleet, covers, TRIMTAB, disruptions=disruptions_of)
    assert before == (schedule(pending_pod, fleet), fleet.nodes.targets)
    if isinstance(found, Preemption):
        for candidate in found.candidates:
            assert DisruptionLimits(tuple(covers)).allow_all(candidate.victims)
            free = [one for one in candidate.victims if one.labels["app"] not in allowed]
            losses = Counter(one.traits.controller_uid for one in free)
            assert all(lost <= RecentDisruptions(owner, *disruptions).remaining for owner, lost in losses.items())
            after = fleet.without_pods(candidate.victims, candidate.node)
            opinions = {opinion.node: opinion for opinion in explain(pending_pod, after)}
            assert opinions[candidate.node].rejection is None


@given(clusters(), st.data())
def test_preemption_on_updated_snapshot_equals_new_one(
    cluster: tuple[list[Node], list[Pod]], data: st.DataObject
) -> None:
    """Pods and nodes are added, nominations are added and withdrawn, and owners suffer further disruptions."""
    node_list, running = cluster
    incremental = NodeSnapshot.of(node_list, running)
    pending_pod = data.draw(random_pod("p"))
    pending_pod = pending_pod.but(spec=pending_pod.spec.but(priority=5))
    disruptions = 0
    for i in range(4):
        promised = incremental.nominated
        burdens = lambda uid, lately=disruptions: RecentDisruptions(uid, 3, unreplaced=lately % 2, recent=lately)  # noqa: E731
        found = preempt(pending_pod, incremental, (), TRIMTAB, disruptions=burdens)
        fresh = NodeSnapshot.of(node_list, running).with_nominated(promised)
        assert found == preempt(pending_pod, fresh, (), TRIMTAB, disruptions=burdens)
        where = f"n{data.draw(st.integers(0, len(node_list) - 1))}"
        match data.draw(st.sampled_from(("pod", "node", "promise", "withdrawal", "burden"))):
            case "pod":
                late = data.draw(random_pod(f"late{i}", where))
                incremental, running = incremental.with_pod(late), [*running, late]
            case "node":
                node_list = [*node_list, node(f"m{i}")]
                incremental = incremental.with_node(node_list[-1])
            case "promise":
                ahead = build_pod_info(data.draw(random_pod(f"ahead{i}")))
                incremental = incremental.with_nominated({**promised, where: (ahead,)})
            case "withdrawal":
                incremental = incremental.with_nominated({})
            case "burden":
                disruptions += 1


@given(clusters(), random_pod("p"))
def test_crowded_nodes_are_the_unschedulable_ones_of_the_explanation(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod
) -> None:
    fleet = NodeSnapshot.of(*cluster)
    crowded = resolvable_nodes(pod_request_for(pending_pod, fleet), fleet, DEFAULT_SCHEDULER_PROFILE)
    unschedulable = {
        o.node for o in explain(pending_pod, fleet) if o.rejection and o.rejection.reason.code == "Unschedulable"
    }
    assert {fleet.nodes.names[column] for column in np.flatnonzero(crowded).tolist()} == unschedulable
