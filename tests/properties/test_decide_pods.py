"""Placing pods: arrays against one-by-one, decisions against explanations, changes against fresh pictures."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import HOSTNAME, ZONE, near, node, pod, spread

from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB
from trimtab.decide.framework import grades, node_scores, objections, verdicts
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
    places = draw(nodes())
    running = [draw(a_pod(f"r{i}", f"n{draw(st.integers(0, len(places)))}")) for i in range(draw(st.integers(0, 8)))]
    return places, running


@given(clusters(), a_pod("p"))
def test_arrays_and_one_by_one_agree(cluster: tuple[list[Node], list[Pod]], asked: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    ask = ask_for(asked, fleet)
    for plugin in active_filters(ask, DEFAULT):
        check = plugin.study(ask, fleet.hosts)
        one_by_one = [check(here) is None for here in fleet.hosts]
        assert verdicts(plugin, ask, fleet.hosts).tolist() == one_by_one
    for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration", "NodeAffinity"):
        score = node_scores[name]
        grade = score.study(ask, fleet.hosts)
        assert grades(score, ask, fleet.hosts).tolist() == [grade(here) for here in fleet.hosts]


@given(clusters(), a_pod("p"))
def test_the_decision_is_the_best_of_the_explanation(cluster: tuple[list[Node], list[Pod]], asked: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    decision, opinions = schedule(asked, fleet), explain(asked, fleet)
    feasible = [opinion for opinion in opinions if opinion.objection is None]
    assert decision.feasible == len(feasible)
    assert decision.node == (feasible[0].node if feasible else None)
    assert all(opinion.total <= decision.total for opinion in feasible)


@given(clusters(), a_pod("p"))
def test_a_filtered_node_is_never_chosen(cluster: tuple[list[Node], list[Pod]], asked: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    decision = schedule(asked, fleet)
    if decision.node is None:
        return
    ask = ask_for(asked, fleet)
    ((_, objection),) = objections(active_filters(ask, DEFAULT), ask, fleet.hosts, [fleet.hosts.index[decision.node]])
    assert objection is None
    here = book(decision, fleet).get(decision.node)
    assert here is not None
    asks = decision.pod.demand.requests
    assert here.free_pods >= 0
    assert all(here.free(resource) >= 0 for resource in asks)


@given(clusters(), a_pod("p"), st.randoms())
def test_the_order_of_nodes_and_pods_does_not_matter(
    cluster: tuple[list[Node], list[Pod]], asked: Pod, dice: Any
) -> None:
    places, running = cluster
    expected = schedule(asked, NodeFleet.of(places, running))
    assert (
        schedule(asked, NodeFleet.of(dice.sample(places, len(places)), dice.sample(running, len(running)))) == expected
    )


@given(clusters(), st.lists(st.data(), min_size=1, max_size=1), st.integers(1, 6))
def test_a_picture_that_grew_decides_as_one_made_at_once(
    cluster: tuple[list[Node], list[Pod]], data: list[Any], count: int
) -> None:
    """Kept arrays, refreshed column by column, never tell anything else than arrays computed anew."""
    places, running = cluster
    grown, bound = NodeFleet.of(places), []
    for one in running:
        schedule(one.but(spec=one.spec.but(node_name="")), grown)
        grown = grown.with_pod(one)
    for i in range(count):
        asked = data[0].draw(a_pod(f"p{i}"))
        fresh = NodeFleet.of(places, [*running, *bound])
        decision = schedule(asked, grown)
        assert decision == schedule(asked, fresh)
        assert explain(asked, grown) == explain(asked, fresh)
        grown = book(decision, grown)
        if decision.node is not None:
            bound.append(asked.but(spec=asked.spec.but(node_name=decision.node)))


@given(clusters(), a_pod("p"))
def test_pods_that_come_and_go_leave_no_trace(cluster: tuple[list[Node], list[Pod]], asked: Pod) -> None:
    places, running = cluster
    grown = NodeFleet.of(places, running)
    for one in running:
        schedule(asked, grown)
        grown = grown.without_pod(one)
    assert schedule(asked, grown) == schedule(asked, NodeFleet.of(places))


@given(
    clusters(),
    a_pod("p"),
    st.dictionaries(apps, st.integers(0, 2)),
    st.tuples(st.integers(1, 25), st.integers(0, 2)),
)
def test_preemption_makes_room_and_breaks_no_budget(
    cluster: tuple[list[Node], list[Pod]], asked: Pod, allowed: dict[str, int], borne: tuple[int, int]
) -> None:
    """Nor does it take more than a tenth of an owner for whom no budget speaks."""

    def bearing(owner: str) -> Burden:
        return Burden(owner, *borne)

    fleet = NodeFleet.of(*cluster)
    asked = asked.but(spec=asked.spec.but(priority=5))
    if schedule(asked, fleet).node is not None:
        return
    covers = [Cover("default", Choice((("app", app),)), left) for app, left in allowed.items()]
    before = schedule(asked, fleet), fleet.hosts.targets
    found = preempt(asked, fleet, covers, TRIMTAB, burdens=bearing)
    assert before == (schedule(asked, fleet), fleet.hosts.targets)
    if isinstance(found, Preemption):
        for candidate in found.candidates:
            assert Limits(tuple(covers)).hold(candidate.victims)
            free = [one for one in candidate.victims if one.labels["app"] not in allowed]
            losses = Counter(one.traits.controller for one in free)
            assert all(lost <= Burden(owner, *borne).spare for owner, lost in losses.items())
            after = fleet.vacated(candidate.victims, candidate.node)
            opinions = {opinion.node: opinion for opinion in explain(asked, after)}
            assert opinions[candidate.node].objection is None


@given(clusters(), st.data())
def test_preemption_remembers_nothing_that_is_no_longer_true(
    cluster: tuple[list[Node], list[Pod]], data: st.DataObject
) -> None:
    """Pods and nodes come and go, promises are made and withdrawn, and owners bear more."""
    places, running = cluster
    grown = NodeFleet.of(places, running)
    asked = data.draw(a_pod("p"))
    asked = asked.but(spec=asked.spec.but(priority=5))
    borne = 0
    for i in range(4):
        promised = grown.nominated
        burdens = lambda uid, lately=borne: Burden(uid, 3, down=lately % 2, lately=lately)  # noqa: E731
        found = preempt(asked, grown, (), TRIMTAB, burdens=burdens)
        fresh = NodeFleet.of(places, running).with_nominated(promised)
        assert found == preempt(asked, fresh, (), TRIMTAB, burdens=burdens)
        where = f"n{data.draw(st.integers(0, len(places) - 1))}"
        match data.draw(st.sampled_from(("pod", "node", "promise", "withdrawal", "burden"))):
            case "pod":
                late = data.draw(a_pod(f"late{i}", where))
                grown, running = grown.with_pod(late), [*running, late]
            case "node":
                places = [*places, node(f"m{i}")]
                grown = grown.with_node(places[-1])
            case "promise":
                ahead = resident(data.draw(a_pod(f"ahead{i}")))
                grown = grown.with_nominated({**promised, where: (ahead,)})
            case "withdrawal":
                grown = grown.with_nominated({})
            case "burden":
                borne += 1


@given(clusters(), a_pod("p"))
def test_room_can_be_made_where_the_sentence_says_so(cluster: tuple[list[Node], list[Pod]], asked: Pod) -> None:
    fleet = NodeFleet.of(*cluster)
    crowded = crowded_nodes(ask_for(asked, fleet), fleet, DEFAULT)
    said = {o.node for o in explain(asked, fleet) if o.objection and o.objection.reason.code == "Unschedulable"}
    assert {fleet.hosts.names[column] for column in np.flatnonzero(crowded).tolist()} == said
