"""The hash of a plan, and the differences between two."""

from trimtab.api.kinds.work import TargetCluster
from trimtab.dryrun.change import Change
from trimtab.dryrun.plan_result import Plan, PlannedWorkload, differences, digest_of

ROW = PlannedWorkload(workload="Deployment/default/web", action="Move", before=(TargetCluster(name="a", replicas=1),))


def test_hash_depends_on_change_and_outcome_but_not_on_times() -> None:
    plan = Plan(workloads=(ROW,))
    assert digest_of(plan) == digest_of(plan.but(unchanged=7))
    assert digest_of(plan) != digest_of(plan.but(change=Change(drain=("a",))))
    assert digest_of(plan) != digest_of(plan.but(profile="upstream"))
    moved = TargetCluster(name="b", replicas=1)
    for change in ({"after": (moved,)}, {"before": (moved,)}, {"action": "Refused"}, {"cause": "Drain"}):
        assert digest_of(plan) != digest_of(plan.but(workloads=(ROW.but(**change),))), change


def test_differences_name_workloads_that_joined_left_or_changed() -> None:
    old, new = Plan(workloads=(ROW,)), Plan(workloads=(ROW.but(after=ROW.before),))
    assert differences(old, old) == []
    assert differences(old, new) == ["Deployment/default/web: was Move a:1 -> -, is now Move a:1 -> a:1"]
    assert differences(old, Plan()) == ["Deployment/default/web: no longer part of the plan (was Move a:1 -> -)"]
    assert differences(Plan(), old) == ["Deployment/default/web: now part of the plan (Move a:1 -> -)"]
