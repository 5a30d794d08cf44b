"""Verdicts of plans: nothing, changes or violations, and whether a rebalance spreads load worse."""

from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_costs import spread_of, verdict_of
from trimtab.dryrun.plan_result import ClusterLoad, Plan, PlannedRefusal, PlannedWorkload

MOVED = PlannedWorkload(workload="Deployment/default/web", action="Move", cause="Rebalance")
EVEN = (
    ClusterLoad(cluster="a", cpu_before=0.5, cpu_after=0.9),
    ClusterLoad(cluster="b", cpu_before=0.5, cpu_after=0.1),
)


def test_spread_is_the_standard_deviation_in_percentage_points() -> None:
    assert spread_of(EVEN, after=False) == 0.0
    assert spread_of(EVEN, after=True) == 40.0
    assert spread_of((*EVEN[:1], ClusterLoad(cluster="c", is_lost=True, cpu_before=0.1)), after=False) is None


def test_a_rebalance_that_spreads_load_worse_says_so() -> None:
    verdict = verdict_of(Plan(change=Change(rebalance={}), workloads=(MOVED,), load=EVEN))
    assert verdict.is_worse
    assert "spread worse than now: 0.0 to 40.0" in verdict.message
    drain = verdict_of(Plan(change=Change(drain=("b",)), workloads=(MOVED,), load=EVEN))
    assert not drain.is_worse


def test_the_outcome_tells_nothing_changes_and_violations_apart() -> None:
    assert verdict_of(Plan()).outcome == "NoChange"
    assert verdict_of(Plan(workloads=(MOVED,))).outcome == "Changes"
    later = MOVED.but(refusal=PlannedRefusal(code="WindowClosed", message="closed"))
    assert verdict_of(Plan(workloads=(later,))).outcome == "Changes"
    never = MOVED.but(refusal=PlannedRefusal(code="LastCopy", message="no other copy", is_violation=True))
    plan = Plan(workloads=(never,), verdict=verdict_of(Plan(workloads=(never,))))
    assert (plan.verdict.outcome, plan.exit_code) == ("Violations", 3)
