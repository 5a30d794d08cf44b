"""Pod placement: arrays agree with rules, decisions with explanations, updated snapshots with new ones."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import HOSTNAME, ZONE, near, node, pod, spread

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB
from trimtab.decide.framework import filter_mask, first_rejections, node_scores, score_array
from trimtab.decide.pods.affinity.affinity_terms import Choice
from trimtab.decide.pods.node_info import resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.preemption.preempt import Cover, Limits, Preemption, preempt
from trimtab.decide.pods.preemption.recent_disruptions import Burden
from trimtab.decide.pods.request import ask_for
from trimtab.decide.pods.schedule import DEFAULT, active_filters, book, crowded_nodes, explain, schedule

APPS = ("web", "db")
apps, keys = st.sampled_from(APPS), st.sampled_from((HOSTNAME, ZONE))


@st.composite
def particulars(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(("", "near", "spread", "selector", "tolerant", "port")))
    match kind:
        case "near":
            weight = draw(st.sampled_from((0, 0, 10)))
            return near(draw(keys), draw(apps), weight=weight, repels=draw(st.booleans()))
        case "spread":
            more = {"minDomains": 3} if draw(st.booleans()) else {}
            return spread(draw(keys), skew=draw(st.integers(1, 3)), soft=draw(st.booleans()), app=draw(apps), **more)
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
def a_pod(draw: st.DrawFn, name: str, on: str = "") -> Pod:
    return pod(
        name,
        on,
        cpu=draw(st.sampled_from(("0", "100m", "700m"))),
        memory=draw(st.sampled_from(("0", "64Mi", "600Mi"))),
        app=draw(apps),
        priority=draw(st.integers(0, 3)),
        **draw(particulars()),
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    node_list = draw(nodes())
    running = [draw(a_pod(f"r{i}", f"n{draw(st.integers(0, len(node_list)))}")) for i in range(draw(st.integers(0, 8)))]
    return node_list, running


@given(clusters(), a_pod("p"))
def test_array_filters_agree_with_single_node_filters(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    request = ask_for(pending_pod, fleet)
    for plugin in active_filters(request, DEFAULT):
        check = plugin.prepare(request, fleet.hosts)
        one_by_one = [check(here) is None for here in fleet.hosts]
        assert filter_mask(plugin, request, fleet.hosts).tolist() == one_by_one
    for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration", "NodeAffinity"):
        score = node_scores[name]
        grade = score.prepare(request, fleet.hosts)
        assert score_array(score, request, fleet.hosts).tolist() == [grade(here) for here in fleet.hosts]


@given(clusters(), a_pod("p"))
def test_decision_is_the_best_node_of_the_explanation(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    decision, opinions = schedule(pending_pod, fleet), explain(pending_pod, fleet)
    feasible = [opinion for opinion in opinions if opinion.objection is None]
    assert decision.feasible == len(feasible)
    assert decision.node == (feasible[0].node if feasible else None)
    assert all(opinion.total <= decision.total for opinion in feasible)


@given(clusters(), a_pod("p"))
def test_filtered_node_is_never_chosen(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    decision = schedule(pending_pod, fleet)
    if decision.node is None:
        return
    request = ask_for(pending_pod, fleet)
    ((_, objection),) = first_rejections(
        active_filters(request, DEFAULT), request, fleet.hosts, [fleet.hosts.index[decision.node]]
    )
    assert objection is None
    here = book(decision, fleet).get(decision.node)
    assert here is not None
    requested = decision.pod.demand.requests
    assert here.free_pods >= 0
    assert all(here.free(resource) >= 0 for resource in requested)


@given(clusters(), a_pod("p"), st.randoms())
def test_order_of_nodes_and_pods_does_not_matter(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod, rng: Any
) -> None:
    node_list, running = cluster
    expected = schedule(pending_pod, NodeFleet.of(node_list, running))
    assert (
        schedule(pending_pod, NodeFleet.of(rng.sample(node_list, len(node_list)), rng.sample(running, len(running))))
        == expected
    )


@given(clusters(), st.lists(st.data(), min_size=1, max_size=1), st.integers(1, 6))
def test_updated_snapshot_decides_like_a_new_one(
    cluster: tuple[list[Node], list[Pod]], data: list[Any], count: int
) -> None:
    """Arrays refreshed column by column equal arrays computed from scratch."""
    node_list, running = cluster
    incremental, bound = NodeFleet.of(node_list), []
    for one in running:
        schedule(one.but(spec=one.spec.but(node_name="")), incremental)
        incremental = incremental.with_pod(one)
    for i in range(count):
        pending_pod = data[0].draw(a_pod(f"p{i}"))
        fresh = NodeFleet.of(node_list, [*running, *bound])
        decision = schedule(pending_pod, incremental)
        assert decision == schedule(pending_pod, fresh)
        assert explain(pending_pod, incremental) == explain(pending_pod, fresh)
        incremental = book(decision, incremental)
        if decision.node is not None:
            bound.append(pending_pod.but(spec=pending_pod.spec.but(node_name=decision.node)))


@given(clusters(), a_pod("p"))
def test_removed_pods_do_not_affect_decisions(cluster: tuple[list[Node], list[Pod]], pending_pod: Pod) -> None:
    node_list, running = cluster
    incremental = NodeFleet.of(node_list, running)
    for one in running:
        schedule(pending_pod, incremental)
        incremental = incremental.without_pod(one)
    assert schedule(pending_pod, incremental) == schedule(pending_pod, NodeFleet.of(node_list))


@given(
    clusters(),
    a_pod("p"),
    st.dictionaries(apps, st.integers(0, 2)),
    st.tuples(st.integers(1, 25), st.integers(0, 2)),
)
def test_preemption_frees_capacity_within_budgets(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod, allowed: dict[str, int], disruptions: tuple[int, int]
) -> None:
    """It takes at most a tenth of the pods of an owner without a budget."""

    def disruptions_of(owner: str) -> Burden:
        return Burden(owner, *disruptions)

    fleet = NodeFleet.of(*cluster)
    pending_pod = pending_pod.but(spec=pending_pod.spec.but(priority=5))
    if schedule(pending_pod, fleet).node is not None:
        return
    covers = [Cover("default", Choice((("app", app),)), left) for app, left in allowed.items()]
    before = schedule(pending_pod, fleet), fleet.hosts.targets
    found = preempt(pending_pod, fleet, covers, TRIMTAB, burdens=disruptions_of)
    assert before == (schedule(pending_pod, fleet), fleet.hosts.targets)
    if isinstance(found, Preemption):
        for candidate in found.candidates:
            assert Limits(tuple(covers)).hold(candidate.victims)
            free = [one for one in candidate.victims if one.labels["app"] not in allowed]
            losses = Counter(one.traits.controller for one in free)
            assert all(lost <= Burden(owner, *disruptions).spare for owner, lost in losses.items())
            after = fleet.vacated(candidate.victims, candidate.node)
            opinions = {opinion.node: opinion for opinion in explain(pending_pod, after)}
            assert opinions[candidate.node].objection is None


@given(clusters(), st.data())
def test_preemption_on_updated_snapshot_equals_new_one(
    cluster: tuple[list[Node], list[Pod]], data: st.DataObject
) -> None:
    """Pods and nodes are added, nominations are added and withdrawn, and owners suffer further disruptions."""
    node_list, running = cluster
    incremental = NodeFleet.of(node_list, running)
    pending_pod = data.draw(a_pod("p"))
    pending_pod = pending_pod.but(spec=pending_pod.spec.but(priority=5))
    disruptions = 0
    for i in range(4):
        promised = incremental.nominated
        burdens = lambda uid, lately=disruptions: Burden(uid, 3, down=lately % 2, lately=lately)  # noqa: E731
        found = preempt(pending_pod, incremental, (), TRIMTAB, burdens=burdens)
        fresh = NodeFleet.of(node_list, running).with_nominated(promised)
        assert found == preempt(pending_pod, fresh, (), TRIMTAB, burdens=burdens)
        where = f"n{data.draw(st.integers(0, len(node_list) - 1))}"
        match data.draw(st.sampled_from(("pod", "node", "promise", "withdrawal", "burden"))):
            case "pod":
                late = data.draw(a_pod(f"late{i}", where))
                incremental, running = incremental.with_pod(late), [*running, late]
            case "node":
                node_list = [*node_list, node(f"m{i}")]
                incremental = incremental.with_node(node_list[-1])
            case "promise":
                ahead = resident(data.draw(a_pod(f"ahead{i}")))
                incremental = incremental.with_nominated({**promised, where: (ahead,)})
            case "withdrawal":
                incremental = incremental.with_nominated({})
            case "burden":
                disruptions += 1


@given(clusters(), a_pod("p"))
def test_crowded_nodes_are_the_unschedulable_ones_of_the_explanation(
    cluster: tuple[list[Node], list[Pod]], pending_pod: Pod
) -> None:
    fleet = NodeFleet.of(*cluster)
    crowded = crowded_nodes(ask_for(pending_pod, fleet), fleet, DEFAULT)
    unschedulable = {
        o.node for o in explain(pending_pod, fleet) if o.objection and o.objection.reason.code == "Unschedulable"
    }
    assert {fleet.hosts.names[column] for column in np.flatnonzero(crowded).tolist()} == unschedulable
