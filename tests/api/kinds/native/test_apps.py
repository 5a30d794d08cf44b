from api.kinds.kind_helpers import decode, reencode
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}


def test_deployment_keeps_percentages_and_counts_of_its_strategy() -> None:
    deployment = decode(Deployment, {"metadata": {"name": "d"}, "spec": {"replicas": 0, "strategy": ROLLING}})
    assert deployment.spec.replicas == 0
    assert deployment.spec.strategy.rolling_update is not None
    assert deployment.spec.strategy.rolling_update.max_unavailable == "25%"
    assert deployment.spec.strategy.rolling_update.max_surge == 1
    assert (
        reencode(Deployment, {"metadata": {"name": "d"}, "spec": {"strategy": ROLLING}})["spec"]["strategy"] == ROLLING
    )


def test_missing_replicas_differ_from_zero_replicas() -> None:
    assert decode(ReplicaSet, {"metadata": {"name": "r"}}).spec.replicas is None
    assert decode(ReplicaSet, {"metadata": {"name": "r"}, "spec": {"replicas": 0}}).spec.replicas == 0


def test_stateful_set_keeps_its_partition() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    stateful_set = decode(StatefulSet, {"metadata": {"name": "s"}, "spec": {"updateStrategy": strategy}})
    assert stateful_set.spec.update_strategy.rolling_update is not None
    assert stateful_set.spec.update_strategy.rolling_update.partition == 2


def test_all_workloads_but_daemon_sets_have_a_scale_subresource() -> None:
    for type_ in (Deployment, ReplicaSet, StatefulSet, ReplicationController):
        assert kind_of(type_).scale is not None, type_
    assert kind_of(DaemonSet).scale is None
