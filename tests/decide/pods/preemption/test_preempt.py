from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.decide.framework import Reason
from trimtab.decide.pods.affinity.affinity_terms import HashableSelector
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.preemption.fair_share import FairShareInput, ShareOwner
from trimtab.decide.pods.preemption.preempt import Preemption, PreemptionBudget, predict_replacements, preempt
from trimtab.decide.pods.preemption.recent_disruptions import DisruptionsLookup, RecentDisruptions
from trimtab.decide.pods.schedule import apply_decision, schedule

WEB = HashableSelector((("app", "web"),))


def run_preempt(
    asked: Pod, fleet: NodeSnapshot, covers: list[PreemptionBudget] | None = None, profile: Profile = UPSTREAM
) -> Preemption:
    answer = preempt(asked, fleet, covers or [], profile)
    assert isinstance(answer, Preemption)
    return answer


def victim_names(answer: Preemption) -> list[str]:
    return [one.name for one in answer.chosen.victims]


def test_only_pods_of_lower_priority_are_victims() -> None:
    fleet = NodeSnapshot.of([node("a", cpu="2")], [pod("same", on="a", cpu="2", priority=5)])
    assert isinstance(preempt(pod("p", cpu="1", priority=5), fleet, [], UPSTREAM), Reason)


def test_two_small_pods_of_low_priority_are_evicted_before_one_large_pod_of_higher_priority() -> None:
    running = [
        pod("large", on="a", cpu="2", priority=3),
        pod("small-1", on="a", cpu="1", priority=1),
        pod("small-2", on="a", cpu="1", priority=1),
    ]
    answer = run_preempt(pod("p", cpu="2", priority=9), NodeSnapshot.of([node("a", cpu="4")], running))
    assert sorted(victim_names(answer)) == ["small-1", "small-2"]


def test_node_with_the_least_important_victim_is_chosen() -> None:
    running = [pod("r", on="a", cpu="2", priority=4), pod("s", on="b", cpu="2", priority=2)]
    answer = run_preempt(
        pod("p", cpu="1", priority=9), NodeSnapshot.of([node("a", cpu="2"), node("b", cpu="2")], running)
    )
    assert answer.chosen.node == "b"


def test_pod_with_preemption_policy_never_does_not_preempt() -> None:
    fleet = NodeSnapshot.of([node("a", cpu="2")], [pod("r", on="a", cpu="2", priority=0)])
    answer = preempt(pod("p", cpu="1", priority=9, preemptionPolicy="Never"), fleet, [], UPSTREAM)
    assert isinstance(answer, Reason)
    assert answer.code == "NeverPreempts"


def nominated_pod_and_fleet(priority: int) -> tuple[Pod, NodeSnapshot]:
    """A pod of priority 9 with a nominated node, which a victim of this priority is leaving."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = pod(
        "r",
        on="a",
        cpu="2",
        priority=priority,
        owner="ReplicaSet/r",
        metadata={"deletionTimestamp": "2026-08-01T00:00:00Z"},
        status={"conditions": [condition]},
    )
    asked = pod("p", cpu="1", priority=9, owner="ReplicaSet/p", status={"nominatedNodeName": "a"})
    return asked, NodeSnapshot.of([node("a", cpu="2")], [leaving])


def test_pod_waits_while_its_victims_are_leaving() -> None:
    answer = preempt(*nominated_pod_and_fleet(0), [], UPSTREAM)
    assert isinstance(answer, Reason)
    assert answer.code == "VictimsTerminating"


def test_pod_waits_while_victims_of_equal_priority_are_leaving() -> None:
    answer = preempt(*nominated_pod_and_fleet(9), [], TRIMTAB, fairness=LONG_WAITING)
    assert isinstance(answer, Reason)
    assert answer.code == "VictimsTerminating"


CLOSED = [PreemptionBudget("default", WEB, 0)]


def guarded_fleet() -> NodeSnapshot:
    return NodeSnapshot.of([node("a", cpu="2")], [pod("r", on="a", cpu="2", priority=0)])


def test_upstream_violates_a_budget_when_nothing_else_helps() -> None:
    assert run_preempt(pod("p", cpu="1", priority=9), guarded_fleet(), CLOSED).chosen.violations == 1


def test_profile_trimtab_never_violates_a_budget() -> None:
    assert isinstance(preempt(pod("p", cpu="1", priority=9), guarded_fleet(), CLOSED, TRIMTAB), Reason)


def test_system_critical_pods_may_violate_budgets() -> None:
    assert victim_names(run_preempt(pod("p", cpu="1", priority=2_000_000_000), guarded_fleet(), CLOSED, TRIMTAB)) == [
        "r"
    ]


def test_allowed_victim_is_found_beside_a_protected_one() -> None:
    running = [pod("guarded", on="a", cpu="1", priority=0), pod("free", on="a", cpu="1", priority=3, app="other")]
    answer = run_preempt(pod("p", cpu="1", priority=9), NodeSnapshot.of([node("a", cpu="2")], running), CLOSED, TRIMTAB)
    assert victim_names(answer) == ["free"]


def test_budget_allows_as_many_victims_as_it_has_disruptions() -> None:
    running = [pod(f"r{i}", on="a", cpu="1", priority=i) for i in range(3)]
    fleet = NodeSnapshot.of([node("a", cpu="3")], running)
    assert victim_names(
        run_preempt(pod("p", cpu="1", priority=9), fleet, [PreemptionBudget("default", WEB, 1)], TRIMTAB)
    ) == ["r0"]
    answer = preempt(pod("p", cpu="2", priority=9), fleet, [PreemptionBudget("default", WEB, 1)], TRIMTAB)
    assert isinstance(answer, Reason)


NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
LONG_WAITING = FairShareInput(NOON, NOON - timedelta(minutes=5))
LONG_AGO = {"startTime": NOON - timedelta(hours=1)}


def fleet_full_of(owner: str, count: int) -> NodeSnapshot:
    running = [pod(f"{owner}-{i}", on="a", cpu="1", owner=f"ReplicaSet/{owner}", status=LONG_AGO) for i in range(count)]
    return NodeSnapshot.of([node("a", cpu="4")], running)


def test_owner_with_a_smaller_share_preempts_an_equal_with_a_larger_one() -> None:
    asked = pod("b-0", cpu="1", owner="ReplicaSet/b")
    assert isinstance(preempt(asked, fleet_full_of("a", 4), [], TRIMTAB), Reason)
    answer = preempt(asked, fleet_full_of("a", 4), [], TRIMTAB, fairness=LONG_WAITING)
    assert isinstance(answer, Preemption)
    assert len(answer.chosen.victims) == 1


def test_pods_of_equal_priority_are_victims_only_after_the_minimum_times() -> None:
    asked = pod("b-0", cpu="1", owner="ReplicaSet/b")
    short_wait = FairShareInput(NOON, NOON - timedelta(minutes=1))
    assert isinstance(preempt(asked, fleet_full_of("a", 4), [], TRIMTAB, fairness=short_wait), Reason)
    early = FairShareInput(NOON - timedelta(minutes=55), NOON - timedelta(hours=1))
    assert isinstance(preempt(asked, fleet_full_of("a", 4), [], TRIMTAB, fairness=early), Reason)


def test_owner_never_preempts_itself_nor_an_owner_left_with_less() -> None:
    own = pod("a-9", cpu="1", owner="ReplicaSet/a")
    assert isinstance(preempt(own, fleet_full_of("a", 4), [], TRIMTAB, fairness=LONG_WAITING), Reason)
    large = pod("b-0", cpu="3", owner="ReplicaSet/b")
    assert isinstance(preempt(large, fleet_full_of("a", 4), [], TRIMTAB, fairness=LONG_WAITING), Reason)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.integers(2, 8))
def test_fair_swaps_end(demands: list[int], size: int) -> None:
    """Evicted pods are scheduled again; the number of swaps is bounded."""
    owners = [f"o{i}" for i in range(len(demands))]
    fleet, waiting = NodeSnapshot.of([node("a", cpu=str(size), pods=50)]), []
    for owner, demand in zip(owners, demands, strict=True):
        waiting += [pod(f"{owner}-{i}", cpu="1", owner=f"ReplicaSet/{owner}", status=LONG_AGO) for i in range(demand)]
    swaps = 0
    while waiting:
        progress = False
        for asked in list(waiting):
            decision = schedule(asked, fleet)
            if decision.node is None:
                answer = preempt(asked, fleet, [], TRIMTAB, fairness=LONG_WAITING)
                if isinstance(answer, Reason):
                    continue
                fleet = fleet.without_pods(answer.chosen.victims, answer.chosen.node)
                waiting += [one.pod for one in answer.chosen.victims]
                swaps += 1
                decision = schedule(asked, fleet)
            fleet = apply_decision(decision, fleet)
            waiting.remove(asked)
            progress = True
            assert swaps <= size * len(owners)
        if not progress:
            break


def fleet_with_lone_and_owned() -> NodeSnapshot:
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="a", cpu="1", priority=1)]
    return NodeSnapshot.of([node("a", cpu="2")], running)


def test_unmanaged_pod_is_evicted_last_among_equals() -> None:
    asked = pod("p", cpu="1", priority=9)
    assert victim_names(run_preempt(asked, fleet_with_lone_and_owned(), profile=TRIMTAB)) == ["owned"]
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="b", cpu="1", priority=1)]
    fleet = NodeSnapshot.of([node("a", cpu="1"), node("b", cpu="1")], running)
    assert victim_names(run_preempt(asked, fleet, profile=TRIMTAB)) == ["owned"]
    assert victim_names(run_preempt(asked, fleet)) == ["lone"]


def test_higher_priority_wins_over_an_unmanaged_pod() -> None:
    running = [pod("lone", on="a", cpu="1", priority=1, owner=""), pod("owned", on="a", cpu="1", priority=2)]
    fleet = NodeSnapshot.of([node("a", cpu="2")], running)
    assert victim_names(run_preempt(pod("p", cpu="1", priority=9), fleet, profile=TRIMTAB)) == ["lone"]


def disruptions_lookup(**owners: RecentDisruptions) -> DisruptionsLookup:
    """Recent disruptions of ReplicaSets, by name; other owners have one replica and none."""
    return lambda uid: owners.get(uid.rpartition("/")[2], RecentDisruptions(uid))


def fleet_of_owners(*owners: str, priority: int = 1) -> NodeSnapshot:
    """One node, full with one pod of each of these owners."""
    running = [
        pod(f"{owner}-{i}", on="a", cpu="1", priority=priority, owner=f"ReplicaSet/{owner}", status=LONG_AGO)
        for i, owner in enumerate(owners)
    ]
    return NodeSnapshot.of([node("a", cpu=str(len(owners)))], running)


def preempt_with_disruptions(
    asked: Pod, fleet: NodeSnapshot, burdens: DisruptionsLookup, covers: list[PreemptionBudget] | None = None
) -> Preemption | Reason:
    return preempt(asked, fleet, covers or [], TRIMTAB, disruptions=burdens)


def victims_of(answer: Preemption | Reason) -> list[str]:
    assert isinstance(answer, Preemption), answer
    return victim_names(answer)


def test_owner_without_a_budget_loses_a_tenth_at_once() -> None:
    asked = pod("p", cpu="2", priority=9)
    assert isinstance(
        preempt_with_disruptions(asked, fleet_of_owners("x", "x"), disruptions_lookup(x=RecentDisruptions("x", 10))),
        Reason,
    )
    assert victims_of(
        preempt_with_disruptions(asked, fleet_of_owners("x", "x"), disruptions_lookup(x=RecentDisruptions("x", 11)))
    ) == ["x-0", "x-1"]
    assert isinstance(
        preempt_with_disruptions(
            asked, fleet_of_owners("x", "x"), disruptions_lookup(x=RecentDisruptions("x", 11, unreplaced=1))
        ),
        Reason,
    )
    assert victims_of(
        preempt_with_disruptions(
            asked,
            fleet_of_owners("x", "y"),
            disruptions_lookup(x=RecentDisruptions("x", 10), y=RecentDisruptions("y", 3)),
        )
    ) == ["x-0", "y-1"]


def test_two_controllers_of_one_owner_share_one_limit() -> None:
    same = disruptions_lookup(x=RecentDisruptions("top", 10), y=RecentDisruptions("top", 10))
    assert isinstance(preempt_with_disruptions(pod("p", cpu="2", priority=9), fleet_of_owners("x", "y"), same), Reason)


def test_exhausted_owner_leads_to_another_victim() -> None:
    burdens = disruptions_lookup(x=RecentDisruptions("x", 4, unreplaced=1))
    running = [
        pod("x-0", on="a", cpu="1", priority=0, owner="ReplicaSet/x"),
        pod("y-0", on="b", cpu="1", priority=3, owner="ReplicaSet/y"),
    ]
    fleet = NodeSnapshot.of([node("a", cpu="1"), node("b", cpu="1")], running)
    assert victims_of(preempt_with_disruptions(pod("p", cpu="1", priority=9), fleet, burdens)) == ["y-0"]


def test_pods_with_a_budget_are_not_limited_to_a_tenth() -> None:
    burdens = disruptions_lookup(x=RecentDisruptions("x", 2, unreplaced=1))
    covers = [PreemptionBudget("default", WEB, 2)]
    assert (
        len(
            victims_of(
                preempt_with_disruptions(pod("p", cpu="2", priority=9), fleet_of_owners("x", "x"), burdens, covers)
            )
        )
        == 2
    )


def test_system_critical_pods_and_profile_upstream_ignore_the_limit_of_a_tenth() -> None:
    burdens = disruptions_lookup(x=RecentDisruptions("x", 2, unreplaced=1))
    critical = pod("p", cpu="2", priority=2_000_000_000)
    assert len(victims_of(preempt_with_disruptions(critical, fleet_of_owners("x", "x"), burdens))) == 2
    answer = preempt(pod("p", cpu="2", priority=9), fleet_of_owners("x", "x"), [], UPSTREAM, disruptions=burdens)
    assert len(victims_of(answer)) == 2


def test_owner_with_the_fewest_recent_disruptions_is_chosen_among_equals() -> None:
    burdens = disruptions_lookup(
        x=RecentDisruptions("x", 20, recent=2),
        y=RecentDisruptions("y", 4, recent=1),
        z=RecentDisruptions("z", 2, recent=1),
    )
    asked = pod("p", cpu="1", priority=9)
    assert victims_of(preempt_with_disruptions(asked, fleet_of_owners("y", "x", "z"), burdens)) == ["x-1"]
    running = [
        pod(f"{owner}-0", on=where, cpu="1", priority=1, owner=f"ReplicaSet/{owner}", status=LONG_AGO)
        for owner, where in (("z", "a"), ("y", "b"), ("x", "c"))
    ]
    fleet = NodeSnapshot.of([node(name, cpu="1") for name in "abc"], running)
    assert victims_of(preempt_with_disruptions(asked, fleet, burdens)) == ["x-0"]


def test_younger_pod_is_evicted_unless_its_owner_had_more_disruptions() -> None:
    """A replacement is young: otherwise a disrupted pod would be the first to be disrupted again."""
    running = [
        pod("old", on="a", cpu="1", priority=1, owner="ReplicaSet/x", status={"startTime": NOON - timedelta(hours=2)}),
        pod("young", on="a", cpu="1", priority=1, owner="ReplicaSet/y", status={"startTime": NOON}),
    ]
    fleet = NodeSnapshot.of([node("a", cpu="2")], running)
    asked = pod("p", cpu="1", priority=9)
    assert victims_of(preempt_with_disruptions(asked, fleet, disruptions_lookup())) == ["young"]
    assert victims_of(
        preempt_with_disruptions(asked, fleet, disruptions_lookup(y=RecentDisruptions("y", 1, recent=1)))
    ) == ["old"]


def test_cached_candidates_follow_changed_disruptions() -> None:
    fleet, asked = fleet_of_owners("x", "y"), pod("p", cpu="1", priority=9)
    assert victims_of(
        preempt_with_disruptions(asked, fleet, disruptions_lookup(x=RecentDisruptions("x", 1, recent=1)))
    ) == ["y-1"]
    assert victims_of(
        preempt_with_disruptions(asked, fleet, disruptions_lookup(y=RecentDisruptions("y", 1, recent=1)))
    ) == ["x-0"]
    assert victims_of(
        preempt_with_disruptions(
            asked, fleet, disruptions_lookup(x=RecentDisruptions("x", 2), y=RecentDisruptions("y", 2, unreplaced=1))
        )
    ) == ["x-0"]


def test_exact_budget_honours_empty_selectors_and_pods_without_labels() -> None:
    fleet = NodeSnapshot.of([node("a", cpu="1")], [pod("r", on="a", cpu="1", priority=0, metadata={"labels": {}})])
    asked = pod("p", cpu="1", priority=9)
    assert victims_of(preempt(asked, fleet, [PreemptionBudget("default", HashableSelector(), 0)], TRIMTAB)) == ["r"]
    assert isinstance(
        preempt(asked, fleet, [PreemptionBudget("default", HashableSelector(), 0, exact=True)], TRIMTAB), Reason
    )


def test_exact_budget_ignores_terminating_pods_and_unready_ones_it_does_not_protect() -> None:
    asked = pod("p", cpu="1", priority=9)
    ending = pod("r", on="a", cpu="1", priority=0, metadata={"deletionTimestamp": NOON})
    strict = PreemptionBudget("default", WEB, 0, exact=True)
    assert victims_of(preempt(asked, NodeSnapshot.of([node("a", cpu="1")], [ending]), [strict], TRIMTAB)) == ["r"]
    ill = NodeSnapshot.of([node("a", cpu="1")], [pod("r", on="a", cpu="1", priority=0)])
    assert isinstance(preempt(asked, ill, [strict], TRIMTAB), Reason)
    assert victims_of(preempt(asked, ill, [strict._replace(protects_unready=False)], TRIMTAB)) == ["r"]


def test_leaving_pods_are_not_counted_twice() -> None:
    fleet = NodeSnapshot.of(
        [node("a", cpu="2")],
        [
            pod(f"x-{i}", on="a", cpu="1", priority=1, owner="ReplicaSet/x", metadata={"uid": f"x-{i}"})
            for i in range(2)
        ],
    )
    asked, disrupted = pod("p", cpu="2", priority=9), RecentDisruptions("x", 20, unreplaced=1)
    assert isinstance(preempt_with_disruptions(asked, fleet, disruptions_lookup(x=disrupted)), Reason)
    assert (
        len(
            victims_of(
                preempt_with_disruptions(
                    asked, fleet, disruptions_lookup(x=disrupted._replace(leaving_uids=frozenset(["x-0"])))
                )
            )
        )
        == 2
    )


def fleet_of_old_pods(*owners: str, size: int = 0, **more: Any) -> NodeSnapshot:
    """One node, full with one old pod of each of these owners, of the usual priority."""
    running = [
        pod(f"{owner}-{i}", on="a", cpu="1", owner=f"ReplicaSet/{owner}", status=LONG_AGO, **more)
        for i, owner in enumerate(owners)
    ]
    return NodeSnapshot.of([node("a", cpu=str(size or len(owners)))], running)


def preempt_fairly(asked: Pod, fleet: NodeSnapshot, fairness: FairShareInput = LONG_WAITING) -> Preemption | Reason:
    return preempt(asked, fleet, [], TRIMTAB, fairness=fairness)


POOR = pod("poor-0", cpu="1", owner="ReplicaSet/poor")


def test_pods_of_one_deployment_do_not_preempt_each_other() -> None:
    both = LONG_WAITING._replace(owner_of=lambda _: ShareOwner("top"))
    assert isinstance(preempt_fairly(POOR, fleet_of_old_pods("old", "old", "old"), both), Reason)


def test_owner_with_more_weight_may_have_a_larger_share() -> None:
    heavy = LONG_WAITING._replace(owner_of=lambda uid: ShareOwner(uid, 3.0 if "rich" in uid else 1.0))
    assert victims_of(preempt_fairly(POOR, fleet_of_old_pods("rich", "rich", "rich"))) == ["rich-2"]
    assert isinstance(preempt_fairly(POOR, fleet_of_old_pods("rich", "rich", "rich"), heavy), Reason)


def test_leaving_and_nominated_pods_count_as_done() -> None:
    fleet = fleet_of_old_pods("rich", "rich", "rich")
    coming = build_pod_info(pod("poor-1", cpu="1", owner="ReplicaSet/poor"))
    promised = fleet.with_nominated({"a": (coming,)})
    assert isinstance(preempt_fairly(POOR, promised), Reason)
    ending = pod(
        "rich-9", on="a", cpu="1", owner="ReplicaSet/rich", status=LONG_AGO, metadata={"deletionTimestamp": NOON}
    )
    two = NodeSnapshot.of(
        [node("a", cpu="3")], [ending, *(one.pod for one in fleet_of_old_pods("rich", "x").nodes.targets[0].pods)]
    )
    assert victims_of(preempt_fairly(POOR, two)) == ["rich-9"]
    assert isinstance(preempt_fairly(pod("poor-0", cpu="2", owner="ReplicaSet/poor"), two), Reason)


def test_largest_owner_then_largest_service_loses_pods_first() -> None:
    assert victims_of(preempt_fairly(POOR, fleet_of_old_pods("rich", "rich", "rich", "some", "some", size=5))) == [
        "rich-2"
    ]
    running = [
        pod(f"{name}-{i}", on="a", cpu="1", app=app, owner=f"ReplicaSet/{name}", status=LONG_AGO)
        for name, app in (("small", "alone"), ("large", "shared"), ("other", "shared"))
        for i in range(2 if name != "other" else 1)
    ]
    fleet = NodeSnapshot.of([node("a", cpu="5")], running)
    grouped = LONG_WAITING._replace(services={"default": [{"app": "alone"}, {"app": "shared"}]})
    assert victims_of(preempt_fairly(POOR, fleet, grouped)) == ["large-1"]
    swapped = LONG_WAITING._replace(services={"default": [{"app": "alone"}]})
    assert victims_of(preempt_fairly(POOR, fleet, swapped)) == ["small-1"]


def test_replacements_of_victims_are_predicted() -> None:
    running = [
        pod("large", on="a", cpu="2", priority=1, owner="ReplicaSet/x"),
        pod("small", on="a", cpu="1", priority=1, owner="ReplicaSet/y"),
        pod("lone", on="a", cpu="1", priority=1, owner=""),
    ]
    fleet = NodeSnapshot.of([node("a", cpu="4"), node("b", cpu="1")], running)
    asked = build_pod_info(pod("p", cpu="4", priority=9))
    outcomes = predict_replacements(asked, run_preempt(asked.pod, fleet, profile=TRIMTAB).chosen, fleet)
    assert [(one.name, outcome) for one, outcome in outcomes] == [
        ("lone", "it has no controller and is not replaced"),
        ("large", "its replacement fits on no node"),
        ("small", "its replacement fits on b"),
    ]


def test_candidates_found_beside_a_nominated_pod_are_not_cached() -> None:
    fleet = fleet_of_owners("x", "y")
    asked, ahead = pod("p", cpu="1", priority=9), build_pod_info(pod("ahead", cpu="1", priority=9))
    assert len(victims_of(preempt(asked, fleet.with_nominated({"a": (ahead,)}), [], UPSTREAM))) == 2
    assert len(victims_of(preempt(asked, fleet, [], UPSTREAM))) == 1
    assert len(victims_of(preempt(asked, fleet.with_nominated({"a": (ahead,)}), [], UPSTREAM))) == 2


@given(
    st.lists(st.sampled_from(["guarded", "free", "stuck"]), min_size=1, max_size=20),
    st.integers(0, 260),
    st.integers(1, 300),
)
@settings(max_examples=25, deadline=None)
def test_search_ends_with_enough_candidates_one_of_which_violates_no_budget(
    kinds: list[str], late: int, size: int
) -> None:
    """As kube-scheduler: node by node until a hundred are found, or more while all of them violate budgets."""
    order = [kinds[i % len(kinds)] if i >= late else "guarded" for i in range(size)]
    nodes = [node(f"n{i:03}", cpu="1") for i in range(size)]
    running = [
        pod(f"r{i:03}", on=f"n{i:03}", cpu="1", app="web" if kind == "guarded" else "x", priority=0)
        for i, kind in enumerate(order)
    ] + [pod(f"s{i:03}", on=f"n{i:03}", cpu="1", priority=99) for i, kind in enumerate(order) if kind == "stuck"]
    expected: list[str] = []
    for i, kind in enumerate(order):
        if kind != "stuck":
            expected.append(f"n{i:03}")
        if len(expected) >= 100 and "free" in order[: i + 1]:
            break
    answer = preempt(pod("p", cpu="1", priority=9), NodeSnapshot.of(nodes, running), CLOSED, UPSTREAM)
    assert (expected == []) == isinstance(answer, Reason)
    if isinstance(answer, Preemption):
        assert [one.node for one in answer.candidates] == expected
        assert answer.chosen.violations == ("free" not in [order[int(name[1:])] for name in expected])
