"""The move log names the real cause and mode of every move, and what began it."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from builders import NOON, binding, deployment, placement, status_item
from views import FakeView

from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import MOVE_CAUSES, Move
from trimtab.api.kinds.ocm_clusters import (
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterTaint,
)
from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementSpec, PlacementToleration
from trimtab.api.kinds.policy import ClusterFailoverBehavior, FailoverBehavior
from trimtab.api.kinds.rebalancer import MoveOptions
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, PreviousPlacement, TargetCluster, UnhealthyCluster
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.movement.failover import failover, rollout_of
from trimtab.controllers.movement.gate import GateResult, apply_gate
from trimtab.controllers.movement.move_reasons import mode_of_eviction, reason_of_unselected
from trimtab.controllers.movement.state import request
from trimtab.controllers.movement.taint_eviction import taint_eviction
from trimtab.decide.karmada import decide
from trimtab.decide.request import placement_request_of
from trimtab.plugins import placement_filters
from trimtab.registry import discover

EVENLY = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {
        "staticWeightList": [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in ("m1", "m2")]
    },
}
DIVIDED = placement(replicaScheduling=EVENLY)


def web(clusters: dict[str, int] | None = None, **fields: Any) -> Binding:
    shares = clusters or {"m1": 4}
    items = tuple(status_item(name, status={"readyReplicas": n}) for name, n in shares.items())
    return binding(clusters=shares, **{"placement": DIVIDED, "status_aggregated_status": items, **fields})


def edited() -> Binding:
    """A binding whose policy had another affinity before."""
    applied = placement(replicaScheduling=EVENLY, clusterAffinity={"clusterNames": ["m1"]})
    names = {
        well_known.PP_NAMESPACE: "demo",
        well_known.PP_NAME: "spread",
        well_known.APPLIED_PLACEMENT: msgspec.json.encode(applied).decode(),
    }
    subject = web()
    return subject.but(metadata=subject.metadata.but(annotations=subject.metadata.annotations | names))


def draining(name: str) -> Cluster:
    found = serving_cluster(name)
    marks = {well_known.DRAIN: "2026-03-01T11:00:00+00:00"}
    return found.but(metadata=found.metadata.but(annotations=marks))


def gate_moves(subject: Binding, cause: str, clusters: list[Cluster], mode: str = "", **more: Any) -> list[Move]:
    view = FakeView([subject, *clusters], raws=[deployment()], **more)
    request = msgspec.structs.replace(placement_request_of(subject), fresh=cause != "Reschedule")
    decision = decide(request, StaticFleet(clusters).at(NOON), TRIMTAB)
    result = apply_gate(subject, decision, cause, MoveOptions(mode=mode), view, set())
    assert isinstance(result, GateResult)
    return [entry for entry in result.log_entries if isinstance(entry, Move)]


FLEET = [serving_cluster("m1"), serving_cluster("m2")]
FAILED_BACK = PreviousPlacement(
    clusters=(TargetCluster(name="m2", replicas=4),), healthy_since=NOON - timedelta(minutes=5)
)
DUPLICATED = placement(clusterAffinity={"clusterNames": ["m2"]})
FIRST, ONCE = "ReplacementFirst", "AtOnce"
VOLUNTARY_MOVES = [
    (
        "Rebalance",
        request(web(), NOON, "Rebalance", "nightly"),
        FLEET,
        FIRST,
        "WorkloadRebalancer nightly",
    ),
    ("Rebalance", web(reschedule_triggered_at=NOON), FLEET, FIRST, "rescheduleTriggeredAt 2026-03-01T12:00:00Z"),
    (
        "Failback",
        web(status_previous_placement=FAILED_BACK),
        FLEET,
        FIRST,
        "(m2) can be used again and has been healthy",
    ),
    ("ScoreChange", web(), FLEET, FIRST, "scores are better in m2 than in m1"),
    ("Drain", web(), [draining("m1"), serving_cluster("m2")], FIRST, "m1 is being drained since 2026-03-01T11:00:00"),
    ("PolicyChange", edited(), FLEET, ONCE, "PropagationPolicy demo/spread changed: placement.clusterAffinity"),
    ("Scale", web({"m1": 4, "m2": 4}, replicas=4), FLEET, ONCE, "scaled from 8 to 4 replicas"),
    ("Reschedule", web(placement=DUPLICATED), FLEET, ONCE, "m1 does not fit any more: ClusterAffinity"),
    ("ClusterFailover", web(), FLEET, ONCE, "the cluster m1 is being deleted"),
]


@pytest.mark.parametrize(("cause", "subject", "fleet", "mode", "message"), VOLUNTARY_MOVES)
def test_move_through_the_gate_is_logged_with_its_cause_its_mode_and_what_began_it(
    cause: str, subject: Binding, fleet: list[Cluster], mode: str, message: str
) -> None:
    moves = gate_moves(subject, cause, fleet)
    assert moves
    for move in moves:
        assert (move.spec.cause, move.spec.mode) == (cause, mode)
        assert move.metadata.labels["trimtab.dev/cause"] == cause
    assert message in moves[0].spec.message


def test_replicas_that_make_room_for_evicted_ones_were_not_scaled() -> None:
    evicted = (GracefulEvictionTask(from_cluster="m3", replicas=2),)
    subject = web({"m1": 4}, replicas=6, graceful_eviction_tasks=evicted)
    only_m2 = placement(clusterAffinity={"clusterNames": ["m2"]})
    (move,) = gate_moves(subject.but(spec=subject.spec.but(placement=only_m2)), "Scale", FLEET)
    assert (move.spec.cause, move.spec.mode) == ("Reschedule", FIRST)
    assert move.spec.message == "with the replicas evicted from m3 the policy selects others than m1"
    tainted = [serving_cluster("m1", "broken:NoExecute", ready="False"), serving_cluster("m2")]
    (move,) = gate_moves(subject.but(spec=subject.spec.but(placement=only_m2)), "Scale", tainted)
    assert (move.spec.cause, move.spec.message) == ("ClusterFailover", "the cluster m1 has the taint broken:NoExecute")
    grown = subject.but(spec=subject.spec.but(placement=only_m2, replicas=9))
    (move,) = gate_moves(grown, "Scale", FLEET)
    assert (move.spec.cause, move.spec.message) == ("Scale", "the workload was scaled from 4 to 9 replicas")


def test_move_names_the_user_who_asked_for_the_rebalance_or_the_drain() -> None:
    (move,) = gate_moves(request(web(), NOON, "Rebalance", "nightly", "anna maria@x"), "Rebalance", FLEET)
    assert move.spec.by == "anna maria@x"
    drained = draining("m1")
    marks = drained.metadata.annotations | {well_known.REQUESTER: "berta"}
    fleet = [drained.but(metadata=drained.metadata.but(annotations=marks)), serving_cluster("m2")]
    assert {move.spec.by for move in gate_moves(web(), "Drain", fleet)} == {"berta"}
    assert {move.spec.by for move in gate_moves(web(), "ScoreChange", FLEET)} == {"trimtab-mover"}


@pytest.mark.parametrize("cause", [row[0] for row in VOLUNTARY_MOVES if row[0] != "Scale"])
@pytest.mark.parametrize("mode", [FIRST, ONCE])
def test_asked_mode_is_logged_unless_it_would_remove_the_last_ready_copy(cause: str, mode: str) -> None:
    subject = next(row[1] for row in VOLUNTARY_MOVES if row[0] == cause)
    fleet = next(row[2] for row in VOLUNTARY_MOVES if row[0] == cause)
    spread = subject.but(status=subject.status.but(aggregated_status=()))  # nothing is ready: no last copy to protect
    assert {move.spec.mode for move in gate_moves(spread, cause, fleet, mode)} == {mode}


@pytest.mark.parametrize(
    ("purge", "mode"),
    [("Gracefully", FIRST), ("Graciously", FIRST), ("Directly", ONCE), ("Immediately", ONCE), ("Never", "Never")],
)
@pytest.mark.parametrize(
    ("taint", "ready", "message"),
    [
        ("maintenance:NoExecute", "True", "the cluster m1 has the taint maintenance:NoExecute"),
        ("cluster.karmada.io/not-ready:NoExecute", "False", "Ready is False"),
    ],
)
def test_eviction_by_a_taint_names_the_taint_and_its_real_mode(
    purge: str, mode: str, taint: str, ready: str, message: str
) -> None:
    fleet = [serving_cluster("m1", taint, ready=ready), serving_cluster("m2")]
    behaviour = FailoverBehavior(cluster=ClusterFailoverBehavior(purge_mode=purge))
    subject = binding(clusters={"m1": 3}, failover=behaviour)
    effects = list(taint_eviction(subject, FakeView(fleet, fleet=StaticFleet(fleet))))
    (move,) = [effect for effect in effects if isinstance(effect, Move)]
    assert (move.spec.cause, move.spec.mode) == ("ClusterFailover", mode)
    assert message in move.spec.message


@pytest.mark.parametrize(("purge", "mode"), [("Graciously", FIRST), ("Immediately", ONCE), ("Never", "Never")])
def test_application_failover_names_the_health_and_its_real_mode(purge: str, mode: str) -> None:
    behaviour = msgspec.convert(
        {"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": purge}},
        FailoverBehavior,
        strict=False,
    )
    since = UnhealthyCluster(cluster_name="m1", since=NOON - timedelta(seconds=31))
    subject = web(
        {"m1": 3},
        failover=behaviour,
        propagate_deps=True,
        placement=placement(),
        status_unhealthy_clusters=(since,),
        status_aggregated_status=(status_item("m1", health="Unhealthy", status={"readyReplicas": 0}),),
    )
    view = FakeView([subject, *FLEET], raws=[deployment()], fleet=StaticFleet(FLEET))
    subject = subject.but(status=subject.status.but(rollout=rollout_of(subject, FakeView(raws=[deployment()]))))
    (move,) = [effect for effect in failover(subject, view) if isinstance(effect, Move)]
    assert (move.spec.cause, move.spec.mode) == ("ApplicationFailover", mode)
    assert move.spec.message.startswith("the workload is Unhealthy in m1 since 2026-03-01T11:59:29Z, longer than")


def test_purge_modes_have_modes() -> None:
    modes = {mode: mode_of_eviction(GracefulEvictionTask(purge_mode=mode)) for mode in ("", "Directly", "Never")}
    assert modes == {"": FIRST, "Directly": ONCE, "Never": "Never"}


def managed(name: str, *taints: ManagedClusterTaint, **labels: str) -> ManagedCluster:
    return ManagedCluster(
        metadata=Meta(name=name, labels=labels), spec=ManagedClusterSpec(hub_accepts_client=True, taints=taints)
    )


def tainted(key: str) -> ManagedClusterTaint:
    return ManagedClusterTaint(key=key, effect="NoSelect", time_added=NOON)


def select(tolerations: tuple[PlacementToleration, ...] = (), **spec: Any) -> OcmPlacement:
    body = msgspec.convert({"predicates": [], **spec}, PlacementSpec, strict=False)
    return OcmPlacement(metadata=Meta(namespace="demo", name="p"), spec=body.but(tolerations=tolerations))


EVERYTHING = msgspec.convert(
    {"selectorType": "LabelSelector", "labelSelector": {}}, ManagedClusterSelector, strict=False
)
ALL_CLUSTERS = (
    ManagedClusterSet(metadata=Meta(name="all"), spec=ManagedClusterSetSpec(cluster_selector=EVERYTHING)),
    ManagedClusterSetBinding(
        metadata=Meta(name="all", namespace="demo"), spec=ManagedClusterSetBindingSpec(cluster_set="all")
    ),
)
PROD_ONLY = {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]}
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"


@pytest.mark.parametrize(
    ("cluster", "placement_", "cause", "message"),
    [
        (managed("m1", tainted("gpu")), select(), "Eviction", "the cluster has the taint gpu:NoSelect"),
        (managed("m1", tainted(UNREACHABLE)), select(), "ClusterFailover", f"the taint {UNREACHABLE}:NoSelect"),
        (managed("m1", env="test"), select(**PROD_ONLY), "PolicyChange", "Placement demo/p does not select m1"),
        (managed("m1"), select(), "ScoreChange", "Placement demo/p prefers other clusters to m1"),
        (None, select(), "Drain", "the cluster m1 leaves the fleet"),
        (managed("m1"), None, "PolicyChange", "Placement demo/p is gone"),
    ],
)
def test_cluster_that_a_placement_leaves_is_logged_with_what_excludes_it(
    cluster: ManagedCluster | None, placement_: OcmPlacement | None, cause: str, message: str
) -> None:
    discover(placement_filters)
    things = [thing for thing in (cluster, managed("m2"), placement_, *ALL_CLUSTERS) if thing is not None]
    found = reason_of_unselected("m1", (Key("", "demo", "p"),), FakeView(things))
    assert (found.cause, message in found.message) == (cause, True), found.message
    assert found.cause in MOVE_CAUSES
