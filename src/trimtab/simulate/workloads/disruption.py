"""PodDisruptionBudgets: what each of them allows right now, told in its status."""

from collections.abc import Iterator, Sequence

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, ReplicationController, StatefulSet
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Again, View, Wake, Wish
from trimtab.decide.budget import Controller, CoveredPod, Limit, Strength, Unknown, assess
from trimtab.runtime.notes import stamp
from trimtab.simulate.workloads.offspring import Always, raw_of, with_status
from trimtab.simulate.workloads.registry import workload

SCALED = (ReplicaSet, StatefulSet, ReplicationController)


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and selector.matches(pod.metadata.labels)


def _when_pods_change(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    pod = new or old
    for budget in view.all(PodDisruptionBudget, pod.namespace) if pod else ():
        if any(seen is not None and _selects(budget, seen) for seen in (old, new)):
            yield Key(kind_of(budget).id, budget.namespace, budget.name)


@workload(PodDisruptionBudget, writes=["status"], wakes=[Wake(Pod, _when_pods_change)])
def disruption(budget: PodDisruptionBudget, view: View) -> Iterator[Wish]:
    pods = [pod for pod in view.all(Pod, budget.namespace) if _selects(budget, pod)]
    limit = Limit(budget.spec.min_available, budget.spec.max_unavailable)
    covered = [_covered(pod) for pod in pods]
    found = assess(limit, covered, _controllers(budget.namespace, view), budget.status.disrupted_pods, view.now)
    yield from with_status(raw_of(budget, view), _status(budget, found, view))
    if isinstance(found, Strength) and found.recheck_at is not None:
        yield Again(max(0.0, (found.recheck_at - view.now).total_seconds()))


def _covered(pod: Pod) -> CoveredPod:
    owner = pod.controller
    return CoveredPod(
        pod.name,
        pod.ready,
        pod.metadata.deletion_timestamp is not None,
        f"{owner.kind}/{owner.name}" if owner else "",
        owner.uid if owner else "",
    )


def _controllers(namespace: str, view: View) -> dict[str, Controller]:
    """Everything that says how many pods there should be."""
    found: dict[str, Controller] = {}
    owners: Sequence[Deployment | ReplicaSet | StatefulSet | ReplicationController]
    for type_ in (*SCALED, Deployment):
        owners = view.all(type_, namespace)
        for one in owners:
            above = next((owner.uid for owner in one.metadata.owner_references if owner.controller), "")
            replicas = 1 if one.spec.replicas is None else one.spec.replicas
            found[one.metadata.uid] = Controller(one.metadata.uid, kind_of(one).name, replicas, above)
    return found


def _status(budget: PodDisruptionBudget, found: Strength | Unknown, view: View) -> Raw:
    raw = raw_of(budget, view).get("status") or {}
    if isinstance(found, Unknown):
        condition = ("False", "SyncFailed", found.message)
        return {**raw, "disruptionsAllowed": Always(0), "conditions": _conditions(raw, budget, condition, view)}
    enough = found.allowed > 0
    condition = ("True", "SufficientPods", "") if enough else ("False", "InsufficientPods", "")
    return {
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": {name: stamp(at) for name, at in found.disrupted.items()},
        "disruptionsAllowed": Always(found.allowed),
        "currentHealthy": Always(found.current_healthy),
        "desiredHealthy": Always(found.desired_healthy),
        "expectedPods": Always(found.expected),
        "conditions": _conditions(raw, budget, condition, view),
    }


def _conditions(raw: Raw, budget: PodDisruptionBudget, found: tuple[str, str, str], view: View) -> list[Raw]:
    status, reason, message = found
    others = [one for one in raw.get("conditions") or [] if one["type"] != "DisruptionAllowed"]
    known = next((one for one in raw.get("conditions") or [] if one["type"] == "DisruptionAllowed"), None)
    since = known["lastTransitionTime"] if known and known["status"] == status else stamp(view.now)
    new = {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    return [*others, new]
