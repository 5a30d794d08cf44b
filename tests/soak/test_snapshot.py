"""A fleet at rest has no complaints, and each defect is found."""

from collections.abc import Callable

import pytest

from soak.snapshot import MemberState, Snapshot, complaints
from trimtab.api.value import Raw

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
WORK = {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "web-1"}


def deployment(replicas: int = 2, name: str = "web", work: Raw | None = None) -> Raw:
    metadata = {"name": name, "labels": {"karmada.io/managed": "true"}, "annotations": WORK if work is None else work}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def pod(number: int, app: str = "web") -> Raw:
    return {"metadata": {"name": f"{app}-{number}", "labels": {"app": app}}, "status": READY}


def at_rest() -> Snapshot:
    """Two replicas of one app in m1; m2 is empty."""
    resource = {"name": "web", "uid": "u1"}
    placement = {"replicaScheduling": {"replicaSchedulingType": "Divided"}}
    binding = {
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": resource, "clusters": [{"name": "m1", "replicas": 2}], "placement": placement},
    }
    work = {
        "metadata": {
            "namespace": "karmada-es-m1",
            "name": "web-1",
            "annotations": {"resourcebinding.karmada.io/name": "web-deployment"},
        }
    }
    return Snapshot(
        templates=[{"metadata": {"name": "web", "uid": "u1"}, "spec": {"replicas": 2}}],
        bindings=[binding],
        works=[work],
        moves=[{"metadata": {"name": "m"}, "status": {"outcome": "Done"}}],
        clusters=[{"metadata": {"name": name}, "status": READY} for name in ("m1", "m2")],
        members={"m1": MemberState([deployment()], [pod(1), pod(2)]), "m2": MemberState([], [])},
    )


def break_moves(state: Snapshot) -> None:
    spec = {"object": {"name": "web"}, "from": "m1", "cause": "Drain"}
    state.moves.append({"metadata": {"name": "n"}, "spec": spec, "status": {}})


def break_template(state: Snapshot) -> None:
    state.templates[0]["spec"]["replicas"] = 3


def break_duplicates(state: Snapshot) -> None:
    state.bindings[0]["spec"]["placement"] = {}
    state.bindings[0]["spec"]["clusters"].append({"name": "m2", "replicas": 0})
    state.members["m2"].deployments.append(deployment(0, work={}))


def break_binding(state: Snapshot) -> None:
    state.bindings.clear()


def break_holds(state: Snapshot) -> None:
    state.bindings[0]["status"] = {"holds": [{"cluster": "m2"}]}


def break_desired(state: Snapshot) -> None:
    state.members["m1"].deployments[0]["spec"]["replicas"] = 1


def break_readiness(state: Snapshot) -> None:
    state.members["m1"].pods.pop()


def break_cluster(state: Snapshot) -> None:
    state.clusters.pop()


def break_cluster_health(state: Snapshot) -> None:
    state.clusters[1]["status"] = {}


def break_cluster_removal(state: Snapshot) -> None:
    state.clusters[1]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"


def leave_binding(state: Snapshot) -> None:
    resource = {"name": "old", "uid": "u0"}
    state.bindings.append({"metadata": {"name": "old-deployment"}, "spec": {"resource": resource}})


def leave_work(state: Snapshot) -> None:
    annotations = {"resourcebinding.karmada.io/name": "web-deployment"}
    state.works.append({"metadata": {"namespace": "karmada-es-m2", "name": "web-2", "annotations": annotations}})


def leave_object(state: Snapshot) -> None:
    state.members["m2"].deployments.append(deployment(name="old", work={}))


def leave_pods(state: Snapshot) -> None:
    state.members["m2"].pods.append(pod(1, "old"))


def test_fleet_at_rest_has_no_complaints() -> None:
    assert complaints(at_rest()) == []


@pytest.mark.parametrize(
    ("defect", "text"),
    [
        (break_moves, "the move of web from m1 (Drain) is in progress"),
        (break_template, "web wants 3 replicas, it is placed as {'m1': 2}"),
        (break_duplicates, "web wants 2 replicas in each cluster"),
        (break_binding, "web has no binding"),
        (break_holds, "web has evictions or holds"),
        (break_desired, "the members' objects ask for {'m1': 1}"),
        (break_readiness, "ready are {'m1': 1}"),
        (break_cluster, "m2 is not joined"),
        (break_cluster_health, "m2 is not Ready"),
        (break_cluster_removal, "m2 is being deleted"),
        (leave_binding, "the binding old-deployment has no template"),
        (leave_work, "the Work karmada-es-m2/web-2 has no binding that places it there"),
        (leave_object, "the Deployment old in m2 has no Work"),
        (leave_pods, "pods of old in m2 have no Deployment"),
    ],
)
def test_each_defect_is_found(defect: Callable[[Snapshot], None], text: str) -> None:
    state = at_rest()
    defect(state)
    assert any(text in complaint for complaint in complaints(state)), complaints(state)
