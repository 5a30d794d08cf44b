"""What it means for a binding to move: what was there, what is ready, whose budget it takes, and its entry in the log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import (
    BudgetUse,
    DisruptionBudget,
    InFlight,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    MoveTarget,
)
from trimtab.api.kinds.work import AggregatedStatusItem, Binding, ResourceBinding, TargetCluster
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Index, View
from trimtab.controllers.ocm import workset_budgets
from trimtab.controllers.propagation.execute import is_ready
from trimtab.controllers.propagation.work_rendering import is_workload
from trimtab.decide.gate import Flow, Footing

STALLED = "Stalled"
LOG_NAMESPACE = "default"
"""Where the log of cluster-wide objects is kept."""
COUNTED_IN_REPLICAS = ("Deployment", "StatefulSet", "ReplicaSet")
IN_FLIGHT_AT_MOST = timedelta(seconds=600)


class Asked(NamedTuple):
    """Who asked for a fresh decision, and what for."""

    reason: str
    rebalancer: str = ""


def asked_by(binding: Binding) -> Asked:
    """What the stamp of this binding is for; a stamp that nobody signed comes from a rebalancer of somebody else."""
    words = binding.metadata.annotations.get(well_known.ASKED_BY, "").split()
    stamp = binding.spec.reschedule_triggered_at
    if len(words) < 2 or stamp is None or words[1] != stamp.isoformat():
        return Asked("Rebalance")
    return Asked(words[0], words[2] if len(words) > 2 else "")


def signed_by(binding: Binding) -> str:
    """The rebalancer that last asked for a fresh decision, whether it is still pending or not."""
    words = binding.metadata.annotations.get(well_known.ASKED_BY, "").split()
    return words[2] if len(words) > 2 else ""


def stamped(binding: Binding, at: datetime, reason: str, rebalancer: str = "") -> Binding:
    """The binding with a fresh decision asked for, signed."""
    signature = " ".join(part for part in (reason, at.isoformat(), rebalancer) if part)
    return binding.but(
        metadata=binding.metadata.but(annotations=binding.metadata.annotations | {well_known.ASKED_BY: signature}),
        spec=binding.spec.but(reschedule_triggered_at=at),
    )


def base(binding: Binding) -> dict[str, int]:
    """Where the replicas count as being: while some are held, where they were when they began to move."""
    replacement = binding.status.replacement
    targets = replacement.before if binding.status.holds and replacement is not None else binding.spec.clusters
    return {target.name: target.replicas for target in targets}


def placement(binding: Binding) -> dict[str, int]:
    return {target.name: target.replicas for target in binding.spec.clusters}


def targets_of(shares: Mapping[str, int], *known: Iterable[TargetCluster]) -> tuple[TargetCluster, ...]:
    """The shares in order of names, as the known targets that say the same where there are such."""
    same = {(target.name, target.replicas): target for targets in known for target in targets}
    return tuple(same.get((name, n)) or TargetCluster(name=name, replicas=n) for name, n in sorted(shares.items()))


def items_of(binding: Binding) -> dict[str, AggregatedStatusItem]:
    return {item.cluster_name: item for item in binding.status.aggregated_status}


def answers(cluster: str, view: View) -> bool:
    found = view.get(Cluster, "", cluster)
    return found is not None and is_ready(found)


def ready_in(binding: Binding, cluster: str, view: View) -> int:
    """How many replicas a cluster says are ready; one that does not answer has none."""
    item = items_of(binding).get(cluster)
    if item is None or not item.applied or not answers(cluster, view):
        return 0
    status = item.status or {}
    for field in ("readyReplicas", "numberReady"):
        if isinstance(status.get(field), int):
            return int(status[field])
    if "replicas" in status or binding.spec.resource.kind in COUNTED_IN_REPLICAS:
        return 0
    share = base(binding).get(cluster) or placement(binding).get(cluster, 0)
    return share if item.health != "Unhealthy" else 0


def ready_everywhere(binding: Binding, view: View) -> dict[str, int]:
    return {name: ready_in(binding, name, view) for name in items_of(binding)}


def budgets_of(binding: Binding, view: View, reason: str) -> list[DisruptionBudget]:
    """Every budget that has a say in a move of this workload for this reason."""
    if not binding.namespace:
        return []
    template = view.raw(well_known.template_ref(binding))
    labels = well_known.labels_of(template) if template is not None else {}
    return [
        without_ended(budget, view)
        for budget in view.all(DisruptionBudget, binding.namespace)
        if is_over_workloads(budget)
        and budget.spec.selector is not None
        and budget.spec.selector.matches(labels)
        and (not budget.spec.reasons or reason in budget.spec.reasons)
    ]


def without_ended(budget: DisruptionBudget, view: View) -> DisruptionBudget:
    """The budget without the moves of which the log says that they are over; its controller may not have looked yet."""
    flying = tuple(entry for entry in budget.status.in_flight if not has_ended(entry, budget, view))
    return budget if flying == budget.status.in_flight else budget.but(status=budget.status.but(in_flight=flying))


def has_ended(entry: InFlight, budget: DisruptionBudget, view: View) -> bool:
    """Whether the log says how this move ended; its entry there bears the same time."""
    kind, _, name = entry.object.partition("/")
    return any(
        move.status.outcome and (move.spec.from_, move.status.started) == (entry.from_, entry.since)
        for move in view.having(MOVES_OF_OBJECT, f"{kind}/{budget.namespace}/{name}")
    )


def is_over_workloads(budget: DisruptionBudget) -> bool:
    return budget.spec.target in ("", "Workloads") and budget.metadata.deletion_timestamp is None


def covered_by(budget: DisruptionBudget, view: View) -> list[Binding]:
    """The workloads whose replicas this budget counts."""
    selector = budget.spec.selector
    if selector is None:
        return []
    found: list[Binding] = []
    for binding in view.all(ResourceBinding, budget.namespace):
        template = view.raw(well_known.template_ref(binding)) if is_workload(binding) else None
        if template is not None and selector.matches(well_known.labels_of(template)):
            found.append(binding)
    return found


def footing(budget: DisruptionBudget, view: View, covered: Sequence[Binding] | None = None) -> Footing:
    """Replicas in all clusters: wanted, and available after what was granted but is not to be seen yet."""
    workloads = covered_by(budget, view) if covered is None else covered
    wanted = {object_of(binding): desired(binding) for binding in workloads}
    ready = {
        object_of(binding): min(desired(binding), sum(ready_everywhere(binding, view).values()))
        for binding in workloads
    }
    held = {(object_of(binding), hold.cluster) for binding in workloads for hold in binding.status.holds}
    sets = workset_budgets.footing(budget, view)
    granted = sum(
        entry.replicas
        for entry in budget.status.in_flight
        if (entry.object, entry.from_) not in held and not workset_budgets.is_of_set(entry)
    )
    return Footing(sum(wanted.values()) + sets.desired, max(0, sum(ready.values()) - granted) + sets.available)


def desired(binding: Binding) -> int:
    """How many replicas there should be over all clusters."""
    placed = sum(base(binding).values())
    scheduling = binding.spec.placement.replica_scheduling if binding.spec.placement is not None else None
    divided = scheduling is not None and scheduling.replica_scheduling_type == "Divided"
    return max(placed, binding.spec.replicas) if divided else placed


def object_of(binding: Binding) -> str:
    """How budgets name a workload."""
    return f"{binding.spec.resource.kind}/{binding.spec.resource.name}"


def in_flight(binding: Binding, flow: Flow, cause: str, by: str, now: datetime) -> InFlight:
    return InFlight(
        object=object_of(binding), replicas=flow.replicas, from_=flow.source, since=now, by=by, reason=cause
    )


class Cause(NamedTuple):
    """Why something moves, on whose behalf, and how."""

    name: str
    by: str
    mode: str = "AtOnce"
    message: str = ""
    budgets: tuple[DisruptionBudget, ...] = ()


def log_entry(binding: Binding, flow: Flow, cause: Cause, now: datetime) -> Move:
    """The entry that is written before the move begins; its name tells which generation of the binding it makes."""
    resource = binding.spec.resource
    return Move(
        metadata=Meta(
            namespace=binding.namespace or LOG_NAMESPACE,
            name=entry_name(binding, flow.source),
            labels={"trimtab.dev/cause": cause.name},
            annotations={GENERATION: str(binding.metadata.generation + 1)},
        ),
        spec=MoveSpec(
            object=MovedObject(
                api_version=resource.api_version, kind=resource.kind, namespace=resource.namespace, name=resource.name
            ),
            cause=cause.name,
            by=cause.by,
            from_=flow.source,
            to=tuple(MoveTarget(name=name, replicas=n) for name, n in flow.to),
            replicas=flow.replicas,
            mode=cause.mode,
            budgets=tuple(BudgetUse(name=b.name, namespace=b.namespace, disruptions=1) for b in cause.budgets),
            message=cause.message,
        ),
        status=MoveStatus(started=now),
    )


GENERATION = "trimtab.dev/binding-generation"
LONGEST_NAME = 253


def entry_name(binding: Binding, source: str) -> str:
    text = f"{binding.name}.{binding.metadata.generation + 1}.{source}"
    if len(text) <= LONGEST_NAME:
        return text
    return f"{well_known.permanent_id(text)}.{binding.metadata.generation + 1}"


def objects_of_move(move: Move) -> Iterable[str]:
    about = move.spec.object
    return [f"{about.kind}/{about.namespace}/{about.name}"]


MOVES_OF_OBJECT = Index("moves of an object", Move, objects_of_move)


def moves_of(binding: Binding, view: View) -> list[Move]:
    resource = binding.spec.resource
    return list(view.having(MOVES_OF_OBJECT, f"{resource.kind}/{resource.namespace}/{resource.name}"))


def going_on(binding: Binding, view: View) -> list[Move]:
    return [move for move in moves_of(binding, view) if not move.status.outcome]


def ended(move: Move, outcome: str, message: str, now: datetime) -> Move:
    return move.but(status=move.status.but(outcome=outcome, finished=now, message=message))


def stalled(binding: Binding, reason: str, message: str, now: datetime) -> Binding:
    """The binding that says why it does not get on; an empty reason says that it does."""
    conditions = binding.status.conditions
    old = well_known.condition_of(conditions, STALLED)
    if not reason and (old is None or old.status == "False"):
        return binding
    new = Condition(
        type=STALLED,
        status="True" if reason else "False",
        reason=reason or "GettingOn",
        message=message,
        last_transition_time=now.replace(microsecond=0),
    )
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        new = new.but(last_transition_time=old.last_transition_time)
    kept = tuple(c for c in conditions if c.type != STALLED)
    return binding.but(status=binding.status.but(conditions=(*kept, new)))


def getting_on(binding: Binding, reasons: Iterable[str], now: datetime) -> Iterator[Binding]:
    """What held it up for one of these reasons does so no longer."""
    stuck = stalled_because(binding)
    if stuck is not None and stuck.reason in reasons:
        yield stalled(binding, "", "", now)


def stalled_because(binding: Binding) -> Condition | None:
    found = well_known.condition_of(binding.status.conditions, STALLED)
    return found if found is not None and found.status == "True" else None


def reference(binding: Binding) -> str:
    kind = kind_of(binding).name
    return f"{kind} {binding.namespace}/{binding.name}" if binding.namespace else f"{kind} {binding.name}"
