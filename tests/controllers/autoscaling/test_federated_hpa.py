"""Scaling by the metrics of all clusters."""

from typing import Any

import msgspec
from builders import NOON, binding, cluster, deployment, placement
from views import FakeView

from trimtab.api.kinds.autoscaling import FederatedHPA
from trimtab.controllers.autoscaling.federated_hpa import federated_hpa
from trimtab.controllers.autoscaling.pod_use import POD_USE, PodReading
from trimtab.controllers.contract import Ensure, ReadPodUse
from trimtab.decide.autoscale import PodSample

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}
DIVIDED = placement(replicaScheduling={"replicaSchedulingType": "Divided"})


def autoscaler(maximum: int = 10) -> FederatedHPA:
    spec = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": maximum, "metrics": [METRIC]}
    return msgspec.convert({"metadata": {"namespace": "demo", "name": "f"}, "spec": spec}, FederatedHPA)


def run(subject: FederatedHPA, use: dict[str, list[int]], replicas: int, **fields: Any) -> list[Any]:
    """Reconcile with these uses of pods per cluster, each with a request of 100 millicores."""
    view = FakeView(
        [subject, binding("web", clusters=dict.fromkeys(use, 1), **fields), *(cluster(name) for name in use)],
        raws=[deployment("web", replicas)],
    )
    for effect in federated_hpa(subject, view):
        if isinstance(effect, ReadPodUse):
            pods = tuple(
                PodSample(f"p{number}", {"cpu": 100}, {"cpu": amount})
                for number, amount in enumerate(use[effect.cluster])
            )
            view.memory[POD_USE, effect] = PodReading(NOON, pods)
    return list(federated_hpa(subject, view))


def replicas_after(effects: list[Any]) -> list[int]:
    return [one.wanted["spec"]["replicas"] for one in effects if isinstance(one, Ensure)]


def test_metrics_are_read_in_every_cluster_first() -> None:
    subject = autoscaler()
    view = FakeView(
        [subject, binding("web", clusters={"m1": 1, "m2": 1}), cluster("m1"), cluster("m2", ready="False")],
        raws=[deployment("web", 2)],
    )
    readings = [one for one in federated_hpa(subject, view) if isinstance(one, ReadPodUse)]
    assert readings == [ReadPodUse("m1", "demo", "app=web")]  # the other cluster cannot be read


def test_divided_replicas_follow_the_use_of_all_clusters() -> None:
    effects = run(autoscaler(), {"m1": [100], "m2": [100]}, 2, placement=DIVIDED)
    assert replicas_after(effects) == [4]


def test_duplicated_replicas_are_counted_per_cluster() -> None:
    effects = run(autoscaler(), {"m1": [100, 100], "m2": [100, 100]}, 2, placement=placement())
    assert replicas_after(effects) == [4]


def test_limits_apply_and_are_reported() -> None:
    effects = run(autoscaler(maximum=3), {"m1": [200], "m2": [200]}, 2, placement=DIVIDED)
    assert replicas_after(effects) == [3]
    (after,) = (one for one in effects if isinstance(one, FederatedHPA))
    conditions = {one.type: (one.status, one.reason) for one in after.status.conditions}
    assert conditions == {
        "AbleToScale": ("True", "SucceededRescale"),
        "ScalingActive": ("True", "ValidMetricFound"),
        "ScalingLimited": ("True", "TooManyReplicas"),
    }
    assert (after.status.current_replicas, after.status.desired_replicas) == (2, 3)


def test_a_target_that_is_missing_or_not_scheduled_is_reported() -> None:
    def reason(*things: Any, raws: tuple[Any, ...] = ()) -> str:
        subject = autoscaler()
        effects = federated_hpa(subject, FakeView([subject, *things], raws=raws))
        (after,) = (one for one in effects if isinstance(one, FederatedHPA))
        (condition,) = after.status.conditions
        assert (condition.type, condition.status) == ("AbleToScale", "False")
        return condition.reason

    template = deployment(replicas=2)
    assert reason() == "FailedGetScaleTargetRef"
    assert reason(raws=(template,)) == "FailedGetBinding"
    assert reason(binding(), raws=(template,)) == "FailedGetTargetClusters"
