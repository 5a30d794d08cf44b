from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pod_builders import node, pod

from trimtab import plugins
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionPolicy
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Toleration
from trimtab.api.value import OwnerReference
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, AvoidEntry, PodSignature, encode_entries
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import DeschedulingCycle, PlannedEviction
from trimtab.decide.pods.node_info import build_pod_info
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects, PodOwner
from trimtab.decide.rescheduling.history import DONE, LANDED_BACK, PENDING, MoveRecord, ReschedulingHistory
from trimtab.decide.rescheduling.move_simulation import PlannedMove
from trimtab.decide.rescheduling.objectives import objectives
from trimtab.decide.rescheduling.plan import ReschedulingPlan, move_record, plan_moves, plan_policy_moves
from trimtab.decide.rescheduling.settings import read_settings
from trimtab.decide.rescheduling.snapshot import ReschedulingSnapshot

plugins.load()
NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
KNOWN = {one.name: one.args for one in objectives.values()}
WELL = {"startTime": NOON - timedelta(days=1), "conditions": [{"type": "Ready", "status": "True"}]}
NODES = [node("a", cpu="4"), node("b", cpu="4"), node("c", cpu="4")]
SET = "default-ReplicaSet/web"


def pods_on_one_node(count: int = 4, **more: Any) -> list[Any]:
    return [pod(f"web-{n}", on="a", cpu="900m", status=WELL, metadata={"uid": f"u{n}"}, **more) for n in range(count)]


def owners(replicas: int = 4, **status: Any) -> tuple[list[Deployment], list[ReplicaSet]]:
    ref = {"kind": "Deployment", "name": "web", "uid": "top", "controller": True}
    top = {
        "metadata": {"name": "web", "namespace": "default", "uid": "top", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "updatedReplicas": replicas, **status},
    }
    below = {
        "metadata": {"name": "web", "namespace": "default", "uid": SET, "ownerReferences": [ref]},
        "spec": {"replicas": replicas},
    }
    return [msgspec.convert(top, Deployment)], [msgspec.convert(below, ReplicaSet)]


def budget(allowed: int) -> PodDisruptionBudget:
    raw = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 4, "desiredHealthy": 4 - allowed},
    }
    return msgspec.convert(raw, PodDisruptionBudget)


def plan_for(
    pods: list[Any], history: ReschedulingHistory | None = None, *, budgets: Any = (), top: Any = None, **raw: Any
) -> ReschedulingPlan:
    deployments, sets = top or owners()
    given = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}], **raw}
    facts = ClusterObjects(NODES, pods, deployments, sets, budgets)
    return plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), history or ReschedulingHistory(), NOON))


def reasons(found: ReschedulingPlan) -> set[str]:
    return {one.reason for one in found.rejected}


def test_one_pod_of_an_owner_moves_at_a_time() -> None:
    found = plan_for(pods_on_one_node())
    assert [(move.source, move.expected) for move in found.moves] == [("a", "b")]
    assert "1 of Deployment/web is being moved" in reasons(found)


def test_a_move_needs_the_configured_number_of_confirmations() -> None:
    found = plan_for(pods_on_one_node(), confirmations=2)
    assert not found.moves
    assert reasons(found) == {"it has reached the threshold in 1 of 2 rounds"}
    assert plan_for(pods_on_one_node(), found.history, confirmations=2).moves


def test_a_budget_keeps_its_headroom() -> None:
    assert not plan_for(pods_on_one_node(), budgets=[budget(1)], headRoom=1).moves
    assert plan_for(pods_on_one_node(), budgets=[budget(2)], headRoom=1).moves


def test_the_budget_message_includes_disruptions_of_this_round() -> None:
    found = plan_for(pods_on_one_node(), budgets=[budget(1)], ownerInFlight="100%")
    assert len(found.moves) == 1
    assert "the budget web needs 3 healthy pods and has 4, of which 1 will be evicted" in reasons(found)
    none = plan_for(pods_on_one_node(), budgets=[budget(0)], ownerInFlight="100%")
    assert reasons(none) == {"the budget web needs 4 healthy pods and has 4"}


def test_an_owner_in_a_rollout_is_not_moved() -> None:
    found = plan_for(pods_on_one_node(), top=owners(updated=0, updatedReplicas=1))
    assert reasons(found) == {"Deployment/web is being rolled out"}


def test_unreplaceable_and_young_pods_are_not_moved() -> None:
    young = {**WELL, "startTime": NOON - timedelta(seconds=30)}
    fresh = [one.but(status=msgspec.convert(young, type(one.status))) for one in pods_on_one_node()]
    assert reasons(plan_for(fresh)) == {"it is younger than 2m"}
    assert plan_for(pods_on_one_node(owner="")).moves == ()


def test_a_wasted_move_backs_off_and_three_freeze_the_owner() -> None:
    def wasted(minutes: int) -> MoveRecord:
        return MoveRecord(
            owner="top", source="a", target="a", at=NOON - timedelta(minutes=minutes), outcome=LANDED_BACK
        )

    one = plan_for(pods_on_one_node(), ReschedulingHistory(moves=(wasted(5),)))
    assert reasons(one) == {"Deployment/web had a wasted move and is not moved until 12:05:00"}
    assert plan_for(pods_on_one_node(), ReschedulingHistory(moves=(wasted(15),))).moves
    three = plan_for(pods_on_one_node(), ReschedulingHistory(moves=(wasted(900), wasted(800), wasted(700))))
    assert reasons(three) == {"Deployment/web had three wasted moves in a row"}


def test_frozen_owners_are_listed_by_name() -> None:
    pods = pods_on_one_node()
    snapshot = ReschedulingSnapshot(
        ClusterObjects(NODES, pods, *owners()), read_settings({}, KNOWN), ReschedulingHistory(), NOON
    )
    move = PlannedMove(build_pod_info(pods[0]), "a", "b", "UnderutilisedNodes", 9.0, "why")
    vain = move_record(move, snapshot).but(outcome=LANDED_BACK)
    assert ReschedulingHistory(moves=(vain,) * 2).frozen_owners == []
    assert ReschedulingHistory(moves=(vain,) * 3).frozen_owners == ["default/Deployment/web"]
    assert ReschedulingHistory(moves=(vain.but(whose=""),) * 3).frozen_owners == ["top"]


def test_a_reverse_move_needs_twice_the_gain() -> None:
    came = MoveRecord(owner="top", source="b", target="a", at=NOON - timedelta(minutes=30), outcome=DONE)
    assert any(
        "came from b less than an hour ago" in one
        for one in reasons(plan_for(pods_on_one_node(), ReschedulingHistory(moves=(came,)), gainThreshold=30))
    )
    assert plan_for(pods_on_one_node(), ReschedulingHistory(moves=(came,)), gainThreshold=5).moves


def test_the_outcome_of_a_move_follows_from_its_replacement() -> None:
    before = MoveRecord(owner="top", pod="gone", source="a", at=NOON - timedelta(minutes=1))
    heir = pod("web-9", on="a", status=WELL, metadata={"uid": "u9", "creationTimestamp": NOON - timedelta(seconds=50)})
    (move,) = plan_for([*pods_on_one_node(), heir], ReschedulingHistory(moves=(before,))).history.moves
    assert (move.outcome, move.target) == (LANDED_BACK, "a")


def test_a_pod_that_would_overload_every_node_stays() -> None:
    large = [pod("web-0", on="a", cpu="3500m", status=WELL, metadata={"uid": "u0"})]
    assert plan_for(large).moves == ()


def test_of_equal_candidates_the_least_disrupted_service_moves() -> None:
    """Two owners behind one service share its disruptions: the other service moves first, whatever its name."""
    selectors = {"default": {"front": {"app": "web"}, "back": {"app": "db"}}}
    pods = [
        pod("a-1", on="a", cpu="1300m", owner="ReplicaSet/web", status=WELL, metadata={"uid": "a1"}),
        pod("b-1", on="a", cpu="1300m", app="db", owner="ReplicaSet/db", status=WELL, metadata={"uid": "b1"}),
        pod("c-1", on="a", cpu="1300m", app="other", owner="ReplicaSet/other", status=WELL, metadata={"uid": "c1"}),
    ]

    def first(history: ReschedulingHistory) -> str:
        given = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}], "maxMoves": 1}
        facts = ClusterObjects(NODES, pods, services=selectors)
        return plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), history, NOON)).moves[0].pod.name

    assert first(ReschedulingHistory()) == "a-1"
    lately = MoveRecord(owner="sibling", service="default/front", at=NOON - timedelta(minutes=30), outcome=DONE)
    assert first(ReschedulingHistory(moves=(lately,))) == "b-1"
    long_ago = lately.but(at=NOON - timedelta(hours=2))
    assert first(ReschedulingHistory(moves=(long_ago,))) == "a-1"


def test_the_owner_with_fewest_disruptions_per_replica_moves_first() -> None:
    mine = [pod("a-1", on="a", cpu="1300m", owner="ReplicaSet/web", status=WELL, metadata={"uid": "a1"})]
    other = pod("b-1", on="a", cpu="1300m", owner="ReplicaSet/other", status=WELL, metadata={"uid": "b1"})
    third = pod("c-1", on="a", cpu="1300m", owner="ReplicaSet/third", status=WELL, metadata={"uid": "c1"})
    came = MoveRecord(owner="top", source="x", target="y", at=NOON - timedelta(minutes=30), outcome=DONE)
    found = plan_for([*mine, other, third], ReschedulingHistory(moves=(came,)), maxMoves=1)
    assert found.moves[0].pod.name == "b-1"


def test_a_recorded_move_that_was_never_made_is_dropped() -> None:
    def before(minutes: int) -> MoveRecord:
        return MoveRecord(owner="top", pod="u0", source="a", at=NOON - timedelta(minutes=minutes))

    assert plan_for(pods_on_one_node(), ReschedulingHistory(moves=(before(1),))).history.moves == (before(1),)
    assert plan_for(pods_on_one_node(), ReschedulingHistory(moves=(before(3),))).history.moves == ()
    ending = [
        pods_on_one_node()[0].but(metadata=pods_on_one_node()[0].metadata.but(deletion_timestamp=NOON)),
        *pods_on_one_node()[1:],
    ]
    assert plan_for(ending, ReschedulingHistory(moves=(before(3),))).history.moves == (
        before(3),
    )  # its grace period is long


def test_a_replacement_pending_for_two_minutes_is_a_wasted_move() -> None:
    def outcome(minutes: int) -> str:
        at = NOON - timedelta(minutes=minutes)
        heir = pod("web-9", status={"phase": "Pending"}, metadata={"uid": "u9", "creationTimestamp": at})
        before = MoveRecord(owner="top", pod="gone", source="a", at=at)
        old = [
            one.but(metadata=one.metadata.but(creation_timestamp=NOON - timedelta(days=1)))
            for one in pods_on_one_node()
        ]
        return plan_for([*old, heir], ReschedulingHistory(moves=(before,))).history.moves[0].outcome

    assert (outcome(1), outcome(2)) == ("", PENDING)


def test_backoff_doubles_with_every_wasted_move_up_to_a_day() -> None:
    def wasted(*minutes: int) -> ReschedulingHistory:
        return ReschedulingHistory(
            moves=tuple(MoveRecord(owner="top", at=NOON - timedelta(minutes=m), outcome=LANDED_BACK) for m in minutes)
        )

    assert wasted(0).backoff_until("top") == NOON + timedelta(minutes=10)
    assert wasted(30, 0).backoff_until("top") == NOON + timedelta(minutes=20)
    assert wasted(*range(90, -1, -10)).backoff_until("top") == NOON + timedelta(hours=24)
    good = MoveRecord(owner="top", at=NOON, outcome=DONE)
    assert ReschedulingHistory(moves=(*wasted(30).moves, good)).backoff_until("top") is None


def test_a_recently_scaled_owner_is_not_moved_also_after_a_restart() -> None:
    first = plan_for(pods_on_one_node(), top=owners(3))
    grown = plan_for(pods_on_one_node(), first.history.but(moves=()))
    assert reasons(grown) == {"Deployment/web was scaled less than 5 minutes ago"}
    assert reasons(plan_for(pods_on_one_node(), grown.history.persistent_part(NOON))) == reasons(grown)
    assert grown.history.persistent_part(NOON + timedelta(minutes=5)) == ReschedulingHistory()


def test_nodes_about_to_be_removed_are_neither_target_nor_source() -> None:
    leaving = [node(name, cpu="4", taints=["karpenter.sh/disrupted:NoSchedule"]) for name in "bc"]
    facts = ClusterObjects([NODES[0], *leaving], pods_on_one_node(), *owners())
    given = read_settings({"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}]}, KNOWN)
    assert plan_moves(ReschedulingSnapshot(facts, given, ReschedulingHistory(), NOON)).moves == ()
    own = read_settings(
        {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}], "avoidedTaints": ["x"]}, KNOWN
    )
    tolerating = [
        one.but(spec=one.spec.but(tolerations=(Toleration(operator="Exists"),))) for one in pods_on_one_node()
    ]
    assert plan_moves(
        ReschedulingSnapshot(facts._replace(pods=tolerating), own, ReschedulingHistory(), NOON)
    ).moves  # the list is configurable


def test_the_conservative_preset_keeps_half_of_the_rate() -> None:
    def rated(used: int) -> Any:
        recent = [{"object": f"p{n}", "at": (NOON - timedelta(minutes=9)).isoformat()} for n in range(used)]
        raw = {
            "metadata": {"name": "calm", "namespace": "default"},
            "spec": {
                "target": "Pods",
                "selector": {"matchLabels": {"app": "web"}},
                "rate": {"disruptions": 4, "period": "1h"},
            },
            "status": {"rate": {"inWindow": used, "limit": 4, "recent": recent}, "disruptionsAllowed": 100},
        }
        return msgspec.convert(raw, DisruptionBudget)

    assert plan_for(pods_on_one_node(), budgets=[rated(1)], unusedRate=0.5).moves
    tight = plan_for(pods_on_one_node(), budgets=[rated(2)], unusedRate=0.5)
    assert tight.moves == ()
    assert any("the rate of the budget calm would have too little left" in one for one in reasons(tight))
    assert plan_for(pods_on_one_node(), budgets=[rated(2)], unusedRate=0.0).moves


def test_overlapping_budgets_are_named_where_the_server_refuses_them() -> None:
    facts = ClusterObjects(
        NODES, pods_on_one_node(), *owners(), (budget(2), budget(2).but(metadata=budget(2).metadata.but(name="twin")))
    )
    given = read_settings({"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}]}, KNOWN)
    assert plan_moves(ReschedulingSnapshot(facts, given, ReschedulingHistory(), NOON)).moves
    found = plan_moves(ReschedulingSnapshot(facts._replace(rejects_overlap=True), given, ReschedulingHistory(), NOON))
    assert found.moves == ()
    assert (
        "BlockedByOverlap: the budgets twin and web both select it, which this API server does not support"
        in reasons(found)
    )


def test_without_a_fit_check_pods_move_until_the_node_is_below_its_limit() -> None:
    found = plan_for(pods_on_one_node(), requireFit=False, ownerInFlight="100%")
    assert [(one.source, one.expected) for one in found.moves] == [("a", "")] * len(found.moves)
    assert 1 <= len(found.moves) <= 2  # 90 % is requested, 70 % is allowed, each is 22 %


def test_a_pod_of_an_unknown_scheduler_moves_only_when_urgent() -> None:
    strange = [one.but(spec=one.spec.but(scheduler_name="volcano")) for one in pods_on_one_node()]
    assert reasons(plan_for(strange)) == {"the rules of the scheduler volcano are unknown"}
    tainted = [node("a", cpu="4", taints=["bad=yes:NoSchedule"]), *NODES[1:]]
    given = read_settings({"preset": "aggressive", "objectives": [{"name": "HardViolation"}]}, KNOWN)
    assert plan_moves(
        ReschedulingSnapshot(ClusterObjects(tainted, strange, *owners()), given, ReschedulingHistory(), NOON)
    ).moves


def policy_cycle(pods: list[Any], spared: PlannedEviction) -> DeschedulingCycle:
    turn = DeschedulingCycle(ClusterView.of(NODES, pods))
    turn.evictions = [
        PlannedEviction(build_pod_info(one), one.spec.node_name, "RemoveDuplicates", "too many") for one in pods
    ]
    turn.rejected = [spared]
    turn.notes = ["something is off"]
    return turn


def test_policy_moves_pass_the_same_checks_as_objectives() -> None:
    given = read_settings({"preset": "aggressive"}, KNOWN)

    def obeyed(pods: list[Any], history: ReschedulingHistory | None = None, **facts: Any) -> ReschedulingPlan:
        snapshot = ReschedulingSnapshot(
            ClusterObjects(NODES, pods, *owners(), **facts), given, history or ReschedulingHistory(), NOON
        )
        spared = PlannedEviction(build_pod_info(pods[-1]), "a", "RemoveDuplicates", "it fits on no other node")
        return plan_policy_moves(snapshot, policy_cycle(pods[:-1], spared))

    found = obeyed(pods_on_one_node())
    assert [(one.pod.name, one.expected, one.objective) for one in found.moves] == [("web-0", "b", "RemoveDuplicates")]
    assert {one.pod.name: one.reason for one in found.rejected} == {
        "web-1": "1 of Deployment/web is being moved",
        "web-2": "1 of Deployment/web is being moved",
        "web-3": "it fits on no other node",
    }
    assert found.notes == ("something is off",)
    young = [one.but(status=one.status.but(start_time=NOON)) for one in pods_on_one_node()]
    assert obeyed(young).moves == ()
    vain = ReschedulingHistory(moves=(MoveRecord(owner="top", at=NOON - timedelta(minutes=1), outcome=LANDED_BACK),))
    assert obeyed(pods_on_one_node(), vain).moves == ()
    assert obeyed(pods_on_one_node(), budgets=(budget(0),)).moves == ()


def test_nodes_with_protected_pods_do_not_hide_other_nodes() -> None:
    """The hottest node has more protected pods than a round checks; the second hottest is used instead."""
    hot, warm = node("hot", cpu="8", pods=60), node("warm", cpu="8", pods=60)
    held = {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "yes"}}
    pods = [
        pod(f"held{n}", on="hot", cpu="190m", memory="1Mi", status=WELL, metadata={**held, "uid": f"h{n}"})
        for n in range(40)
    ]
    pods += [
        pod(f"free{n}", on="warm", cpu="900m", owner="ReplicaSet/free", status=WELL, metadata={"uid": f"f{n}"})
        for n in range(7)
    ]
    given = {"preset": "aggressive", "maxMoves": 1, "objectives": [{"name": "UnderutilisedNodes"}]}
    facts = ClusterObjects([hot, warm, node("idle", cpu="8")], pods)
    found = plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), ReschedulingHistory(), NOON))
    assert [one.source for one in found.moves] == ["warm"]
    assert "its annotation excludes it from eviction" in reasons(found)


def test_a_custom_owner_moves_no_more_than_its_share_at_once() -> None:
    """Its sets count as its own: ten percent of thirty are three, whatever is between it and its pods."""
    ref = {"apiVersion": "play.example/v1", "kind": "Game", "name": "web", "uid": "game", "controller": True}
    _, (between,) = owners()
    between = between.but(metadata=between.metadata.but(owner_references=(msgspec.convert(ref, OwnerReference),)))
    pods = [
        pod(f"web-{n:02}", on="a", cpu="120m", memory="1Mi", status=WELL, metadata={"uid": f"u{n}"}) for n in range(30)
    ]
    given = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}]}
    nodes = [node(name, cpu="4", pods=40) for name in "abc"]
    for replicas, allowed in ((30, 3), (10, 1)):
        facts = ClusterObjects(
            nodes, pods, sets=[between], other_owners=[PodOwner("game", "Game/web", replicas, is_rolling_out=False)]
        )
        assert (
            len(plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), ReschedulingHistory(), NOON)).moves)
            == allowed
        )
    busy = ClusterObjects(
        nodes, pods, sets=[between], other_owners=[PodOwner("game", "Game/web", 30, is_rolling_out=True)]
    )
    assert reasons(
        plan_moves(ReschedulingSnapshot(busy, read_settings(given, KNOWN), ReschedulingHistory(), NOON))
    ) == {"Game/web is being rolled out"}


def recent_evictions(count: int, minutes: int = 1) -> dict[str, Any]:
    return {"recent_evictions": {"top": {f"gone-{n}": NOON - timedelta(minutes=minutes) for n in range(count)}}}


def plan_for_twenty(ready: int, facts: dict[str, Any], budgets: Any = (), **raw: Any) -> ReschedulingPlan:
    """An owner of twenty, so that two may be down at once; some are not ready yet."""
    late = {**WELL, "conditions": [{"type": "Ready", "status": "False"}]}
    pods = [
        pod(
            f"web-{n:02}",
            on="a",
            cpu="180m",
            memory="1Mi",
            status=WELL if n < ready else late,
            metadata={"uid": f"u{n}"},
        )
        for n in range(20)
    ]
    nodes = [node(name, cpu="4", pods=40) for name in "abc"]
    objectives_ = [{"name": "UnderutilisedNodes"}]
    given = read_settings({"preset": "aggressive", "ownerInFlight": "100%", "objectives": objectives_, **raw}, KNOWN)
    return plan_moves(
        ReschedulingSnapshot(
            ClusterObjects(nodes, pods, *owners(20), budgets, **facts), given, ReschedulingHistory(), NOON
        )
    )


def test_without_a_budget_at_most_a_tenth_of_an_owner_is_disrupted() -> None:
    assert len(plan_for_twenty(20, {}).moves) == 2
    assert len(plan_for_twenty(19, recent_evictions(1)).moves) == 1
    found = plan_for_twenty(18, recent_evictions(2))
    assert found.moves == ()
    said = "2 of Deployment/web were disrupted and are not ready again, and no budget allows more"
    assert reasons(found) == {said}
    assert len(plan_for_twenty(20, recent_evictions(2)).moves) == 2  # they have been replaced
    assert len(plan_for_twenty(18, recent_evictions(2), budgets=[budget(3)]).moves) == 3  # a budget decides how many


def test_unready_pods_without_eviction_are_no_disruption() -> None:
    assert len(plan_for_twenty(15, {}).moves) == 2


def test_disruptions_by_others_count_when_owners_are_ordered() -> None:
    mine = pod("a-1", on="a", cpu="1300m", owner="ReplicaSet/web", status=WELL, metadata={"uid": "a1"})
    other = pod("b-1", on="a", cpu="1300m", owner="ReplicaSet/other", status=WELL, metadata={"uid": "b1"})
    third = pod("c-1", on="a", cpu="1300m", owner="ReplicaSet/third", status=WELL, metadata={"uid": "c1"})
    given = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes"}], "maxMoves": 1}

    def first(minutes: int) -> str:
        facts = ClusterObjects(NODES, [mine, other, third], *owners(), **recent_evictions(1, minutes))
        return (
            plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), ReschedulingHistory(), NOON))
            .moves[0]
            .pod.name
        )

    assert (first(30), first(61)) == ("b-1", "a-1")


def test_only_rounds_above_the_threshold_confirm_a_move() -> None:
    """A gain below the threshold twice and above it now is confirmed by one round, not by three."""
    history = ReschedulingHistory()
    for _ in range(2):
        history = plan_for(pods_on_one_node(), history, confirmations=3, gainThreshold=90).history
    found = plan_for(pods_on_one_node(), history, confirmations=3)
    assert reasons(found) == {"it has reached the threshold in 1 of 3 rounds"}
    assert any(
        "less than 90 %" in one for one in reasons(plan_for(pods_on_one_node(), confirmations=3, gainThreshold=90))
    )


TAINTED = [node("a", cpu="4", taints=["bad=yes:NoSchedule"]), *NODES[1:]]


def plan_urgent(
    pods: list[Any], history: ReschedulingHistory | None = None, *, top: Any = None, **raw: Any
) -> ReschedulingPlan:
    given = {"preset": "aggressive", "objectives": [{"name": "HardViolation"}], **raw}
    facts = ClusterObjects(TAINTED, pods, *(top or owners()))
    return plan_moves(ReschedulingSnapshot(facts, read_settings(given, KNOWN), history or ReschedulingHistory(), NOON))


def test_urgent_moves_are_confirmed_but_ignore_the_minimum_age() -> None:
    young = [one.but(status=one.status.but(start_time=NOON - timedelta(seconds=5))) for one in pods_on_one_node()]
    first = plan_urgent(young, confirmations=2)
    assert reasons(first) == {"it has reached the threshold in 1 of 2 rounds"}
    assert len(plan_urgent(young, first.history, confirmations=2).moves) == 1


def test_urgent_moves_respect_rollouts_scaling_and_pending_pods() -> None:
    assert reasons(plan_urgent(pods_on_one_node(), top=owners(updatedReplicas=1))) == {
        "Deployment/web is being rolled out"
    }
    waits = pod("web-9", metadata={"uid": "u9", "creationTimestamp": NOON})
    assert reasons(plan_urgent([*pods_on_one_node(), waits])) == {"Deployment/web has a pod without a node"}
    grown = plan_urgent(pods_on_one_node(), plan_urgent(pods_on_one_node(), top=owners(3)).history.but(moves=()))
    assert reasons(grown) == {"Deployment/web was scaled less than 5 minutes ago"}


def test_the_last_ready_pod_stays_and_an_unready_one_may_move() -> None:
    alone, ill = pods_on_one_node(1), {**WELL, "conditions": [{"type": "Ready", "status": "False"}]}
    assert reasons(plan_urgent(alone, minReplicas=2)) == {"Deployment/web has fewer than 2 ready pods"}
    sick = [one.but(status=msgspec.convert({"phase": "Running", **ill}, type(one.status))) for one in alone]
    assert len(plan_urgent(sick, minReplicas=2).moves) == 1


def policy(**use: Any) -> DisruptionPolicy:
    quota = {"component": "rescheduler", "rate": {"disruptions": 3, "period": "10m"}, "maxInFlight": 2}
    status = {"components": [{"component": "rescheduler", **use}]} if use else {}
    raw = {"metadata": {"name": "default"}, "spec": {"componentQuotas": [quota]}, "status": status}
    return msgspec.convert(raw, DisruptionPolicy)


def plan_for_many_owners(history: ReschedulingHistory | None = None, **facts: Any) -> ReschedulingPlan:
    """Twenty owners with one pod each on an overutilised node."""
    pods = [
        pod(
            f"p{n:02}",
            on="a",
            cpu="190m",
            memory="1Mi",
            owner=f"ReplicaSet/o{n}",
            status=WELL,
            metadata={"uid": f"u{n}"},
        )
        for n in range(20)
    ]
    nodes = [node(name, cpu="4", pods=40) for name in "abcdef"]
    wanted = {"preset": "aggressive", "objectives": [{"name": "UnderutilisedNodes", "args": {"high": {"cpu": 20}}}]}
    return plan_moves(
        ReschedulingSnapshot(
            ClusterObjects(nodes, pods, **facts), read_settings(wanted, KNOWN), history or ReschedulingHistory(), NOON
        )
    )


def test_a_round_stops_at_the_quota_of_the_rescheduler() -> None:
    found = plan_for_many_owners(policy=policy())
    assert len(found.moves) == 2
    assert "The quota of the component rescheduler allows 2 disruptions at once, and 2 are in progress" in reasons(
        found
    )
    recent = [{"object": f"x{n}", "at": (NOON - timedelta(minutes=9)).isoformat()} for n in range(2)]
    found = plan_for_many_owners(policy=policy(recent=recent))
    assert len(found.moves) == 1
    assert any("is used up, the next is allowed in 60 s" in one for one in reasons(found))


def test_without_a_stored_quota_the_history_is_charged() -> None:
    assert len(plan_for_many_owners().moves) == 10  # in flight; twenty in ten minutes

    def before(count: int, *, minutes: int, outcome: str = DONE, free: bool = False) -> ReschedulingHistory:
        at = NOON - timedelta(minutes=minutes)
        moves = [MoveRecord(name=f"x/{n}", owner=f"x{n}", at=at, outcome=outcome, free=free) for n in range(count)]
        return ReschedulingHistory(moves=tuple(moves))

    assert len(plan_for_many_owners(before(15, minutes=9)).moves) == 5
    assert len(plan_for_many_owners(before(20, minutes=9)).moves) == 0
    assert len(plan_for_many_owners(before(20, minutes=10)).moves) == 10
    assert len(plan_for_many_owners(before(20, minutes=9, free=True)).moves) == 10
    at_once = ReschedulingHistory(
        moves=tuple(MoveRecord(name=f"x/{n}", owner=f"x{n}", pod=f"g{n}", at=NOON) for n in range(4))
    )
    assert len(plan_for_many_owners(at_once).moves) == 6  # four have no replacement yet


def test_a_pod_that_would_return_is_not_moved() -> None:
    """The node is bad for it, yet the best by its scheduler's scores: only an avoid list keeps the replacement away."""
    ill = {
        "startTime": NOON - timedelta(days=1),
        "containerStatuses": [{"name": "c", "restartCount": 9}],
    }
    bad = pod("web-0", on="a", status={**ill, "startTime": NOON - timedelta(minutes=9)}, metadata={"uid": "u0"})
    well = [pod(f"web-{n}", on="b", cpu="1", status=WELL, metadata={"uid": f"u{n}"}) for n in (1, 2)]
    given = read_settings({"preset": "aggressive", "objectives": [{"name": "PoorService"}]}, KNOWN)

    def looked(nodes: Any, **facts: Any) -> ReschedulingPlan:
        return plan_moves(
            ReschedulingSnapshot(
                ClusterObjects(nodes, [bad, *well], *owners(3), **facts), given, ReschedulingHistory(), NOON
            )
        )

    def avoided(name: str) -> Any:
        entry = AvoidEntry(
            pod_signature=PodSignature(pod_controller=OwnerReference(kind="ReplicaSet", name="web", uid=SET)),
            expiry=NOON + timedelta(hours=1),
        )
        one = node(name, cpu="4")
        return one.but(metadata=one.metadata.but(annotations={AVOID_PODS_ANNOTATION: encode_entries([entry])}))

    pair = [node("a", cpu="4"), node("b", cpu="4")]
    assert [one.expected for one in looked(pair).moves] == ["b"]
    assert reasons(looked(pair, honours_avoid_lists=False)) == {"its scheduler would put it back on a"}
    assert reasons(looked([pair[0], avoided("b")])) == {"its scheduler would put it back on a"}
