"""Verdicts of plans: nothing, changes or violations, and whether a rebalance spreads load worse."""

from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_costs import verdict_of
from trimtab.dryrun.plan_result import ClusterLoad, Plan, PlannedRefusal, PlannedWorkload

MOVED = PlannedWorkload(workload="Deployment/default/web", action="Move", cause="Rebalance")
EVEN = (
    ClusterLoad(cluster="a", cpu_before=0.5, cpu_after=0.9),
    ClusterLoad(cluster="b", cpu_before=0.5, cpu_after=0.1),
)


def test_a_rebalance_that_spreads_load_worse_says_so() -> None:
    verdict = verdict_of(Plan(change=Change(rebalance={}), workloads=(MOVED,), load=EVEN))
    assert verdict.is_worse
    assert "spread worse than now: 0.0 to 40.0" in verdict.message
    drain = verdict_of(Plan(change=Change(drain=("b",)), workloads=(MOVED,), load=EVEN))
    assert not drain.is_worse


def test_a_rebalance_is_worse_only_if_it_is_with_and_without_what_is_not_reported() -> None:
    plan = Plan(change=Change(rebalance={}), workloads=(MOVED,), load=EVEN)
    assert verdict_of(plan, EVEN).is_worse
    better = tuple(one.but(cpu_before=one.cpu_after, cpu_after=one.cpu_before) for one in EVEN)
    assert not verdict_of(plan, better).is_worse


def test_the_outcome_tells_nothing_changes_and_violations_apart() -> None:
    assert verdict_of(Plan()).outcome == "NoChange"
    assert verdict_of(Plan(workloads=(MOVED,))).outcome == "Changes"
    later = MOVED.but(refusal=PlannedRefusal(code="WindowClosed", message="closed"))
    assert verdict_of(Plan(workloads=(later,))).outcome == "Changes"
    never = MOVED.but(refusal=PlannedRefusal(code="LastCopy", message="no other copy", is_violation=True))
    plan = Plan(workloads=(never,), verdict=verdict_of(Plan(workloads=(never,))))
    assert (plan.verdict.outcome, plan.exit_code) == ("Violations", 3)
