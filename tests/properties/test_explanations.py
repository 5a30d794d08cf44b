"""`explain` and the scheduler never disagree: both give the same decision, cluster by cluster, in random fleets."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from properties.hypothesis_settings import example_settings
from properties.test_decide_karmada import NAMES, bindings, fleets, names, profiles
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, PlacementDecision
from trimtab.api.kinds.policy import PlacementReference
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import Profile
from trimtab.api.value import Object
from trimtab.clock import EPOCH
from trimtab.controllers.contract import RememberInProcess
from trimtab.controllers.propagation.scheduling.schedule import DECISION, schedule
from trimtab.controllers.well_known import APPLIED_PLACEMENT, POLICY_ID_LABELS, REQUESTED_BY
from trimtab.decide.explain import explain
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL
from trimtab.dryrun.current_decision import decide_now
from trimtab.dryrun.static_view import StaticView

SETTINGS = {"workload-affinity": True, "quota-enforcement": True}
cases = example_settings(120, thorough=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def drained(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {**body["metadata"], "annotations": {"trimtab.dev/drain": "2029-12-31T00:00:00Z"}}
    taint = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
    return {**body, "metadata": metadata, "spec": {**body["spec"], "taints": [taint]}}


@st.composite
def views(draw: st.DrawFn) -> tuple[ResourceBinding, StaticView]:
    """A binding that is scheduled for one of many reasons, and all objects that its decision reads."""
    bodies = draw(fleets())
    if draw(st.integers(0, 3)) == 0:
        bodies[0] = drained(bodies[0])
    subject, *others = (named(draw(bindings()), number) for number in range(draw(st.integers(1, 3))))
    more: list[Object] = [
        msgspec.convert(
            {
                "metadata": {"name": "carbon", "namespace": name},
                "status": {"scores": [{"name": "green", "value": draw(st.integers(-100, 100))}]},
            },
            AddOnPlacementScore,
            strict=False,
        )
        for name in draw(names)
    ]
    if draw(st.booleans()):  # else the recorded placement is missing, so that the policy counts as changed
        subject = with_applied_placement(with_all_replicas_placed(subject))
    if draw(st.integers(0, 3)) == 0:
        groups = draw(st.sampled_from([{"affinityGroup": "a"}, {"antiAffinityGroup": "a"}]))
        subject, *others = (with_groups(binding, groups) for binding in (subject, *others))
    if draw(st.integers(0, 3)) == 0 and subject.spec.placement is not None:
        placement = subject.spec.placement.but(placement_ref=PlacementReference(name="cheap", namespace="n"))
        subject = subject.but(spec=subject.spec.but(placement=placement))
        seen = tuple(sorted(draw(names)))
        subject = subject.but(status=subject.status.but(placement_ref_clusters=seen))
        more.append(decisions_of_placement(draw(st.lists(st.sampled_from(NAMES), unique=True))))
    if draw(st.integers(0, 2)) == 0:
        subject, job = preserving(subject)
        more.append(job)
    if draw(st.integers(0, 3)) == 0:
        quota = {"metadata": {"name": "q", "namespace": "n"}, "spec": {"overall": {"cpu": draw(st.integers(1, 12))}}}
        more.append(msgspec.convert(quota, FederatedResourceQuota, strict=False))
    clusters = [msgspec.convert(body, Cluster, strict=False) for body in bodies]
    profile: Profile = draw(profiles)
    view = StaticView([], now=EPOCH, profile=profile, more=[*clusters, *more, subject, *others], settings=SETTINGS)
    return subject, view


def named(binding: ResourceBinding, number: int) -> ResourceBinding:
    labels = {POLICY_ID_LABELS[0]: "1"}
    return binding.but(metadata=binding.metadata.but(name=f"app{number}-deployment", labels=labels))


def with_all_replicas_placed(binding: ResourceBinding) -> ResourceBinding:
    """The binding with as many replicas as are placed, so that scale is not the reason of the decision."""
    return binding.but(spec=binding.spec.but(replicas=sum(target.replicas for target in binding.spec.clusters)))


def with_applied_placement(binding: ResourceBinding) -> ResourceBinding:
    applied = msgspec.json.encode(binding.spec.placement).decode()
    return binding.but(metadata=binding.metadata.but(annotations={APPLIED_PLACEMENT: applied}))


def with_groups(binding: ResourceBinding, groups: dict[str, str]) -> ResourceBinding:
    body = msgspec.to_builtins(binding)
    body["spec"]["workloadAffinityGroups"] = groups
    return msgspec.convert(body, ResourceBinding, strict=False)


def decisions_of_placement(clusters: list[str]) -> PlacementDecision:
    body = {
        "metadata": {"name": "cheap-1", "namespace": "n", "labels": {PLACEMENT_LABEL: "cheap"}},
        "status": {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]},
    }
    return msgspec.convert(body, PlacementDecision, strict=False)


def preserving(binding: ResourceBinding) -> tuple[ResourceBinding, WorkloadRebalancer]:
    """The binding as a rebalancer that preserves available replicas leaves it, and the rebalancer."""
    stamp = binding.spec.reschedule_triggered_at or EPOCH
    annotations = {**binding.metadata.annotations, REQUESTED_BY: f"Rebalance {stamp.isoformat()} again"}
    body = {"metadata": {"name": "again"}, "spec": {"strategy": "PreserveAvailable"}}
    job = msgspec.convert(body, WorkloadRebalancer)
    return binding.but(metadata=binding.metadata.but(annotations=annotations)), job


@cases
@given(views())
def test_explanation_is_that_of_the_decision_which_the_scheduler_makes(
    case: tuple[ResourceBinding, StaticView],
) -> None:
    binding, view = case
    explained = explain(decide_now(binding, view))
    remembered = [
        effect.value
        for _, effect in schedule([binding], view)
        if isinstance(effect, RememberInProcess) and effect.topic is DECISION
    ]
    event(f"{len(remembered)} decisions")
    for decision in remembered:
        event(f"ok {decision.ok}, fresh {decision.request.fresh}, groups {bool(decision.request.placement.groups)}")
        assert explained == explain(decision)
        assert [(one.name, one.replicas) for one in explained.clusters if one.replicas is not None] == decision.clusters
