"""What the pages say about one object: clusters, workloads, moves, budgets and rebalances as small frozen values."""

from datetime import datetime, timedelta
from typing import Any

from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.value import Raw, Value
from trimtab.api.wording import verb
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, is_condition_true
from trimtab.controllers.movement.binding_moves import (
    GENERATION_ANNOTATION,
    LOG_NAMESPACE,
)

CLUSTER_WIDE = "-"
"""The namespace of a cluster-wide workload in addresses."""
COMPONENTS = frozenset(
    {
        "trimtab-mover",
        well_known.TAINT_MANAGER,
        "resource-binding-application-failover-controller",
        "cluster-resource-binding-application-failover-controller",
    }
)
"""What decides moves by itself; a move that names something else was asked for by a user."""


Facts = Value
"""What pages and their JSON form are made of."""


class FactsOfWorkload(Facts):
    """Facts about one workload, by its name."""

    namespace: str
    """Empty when it is cluster-wide."""
    kind: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace or CLUSTER_WIDE}/{self.kind}/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class MoveFacts(FactsOfWorkload):
    id: str
    cause: str
    source: str
    targets: tuple[tuple[str, int], ...] = ()
    replicas: int = 0
    mode: str = ""
    by: str = ""
    """The user who asked for it; empty when the control plane decided it."""
    budgets: tuple[str, ...] = ()
    outcome: str = ""
    """Empty while it is in progress."""
    started: datetime | None = None
    finished: datetime | None = None
    message: str = ""
    generation: str = ""
    version_of_model: int = 0

    @property
    def seconds(self) -> float | None:
        if self.started is None or self.finished is None:
            return None
        return (self.finished - self.started).total_seconds()


class BudgetFacts(Facts):
    namespace: str
    name: str
    target: str = ""
    selector: str = ""
    open: bool = True
    needs_approval: bool = False
    """Moves wait until a person approves them, also while it is open."""
    why: str = ""
    allowed_now: int | None = None
    next_allowed_at: datetime | None = None
    desired: int = 0
    available: int = 0
    involuntary: int = 0
    min_available: str = ""
    max_unavailable: str = ""
    max_concurrent: int = 0
    windows: tuple[str, ...] = ()
    rate_limit: int = 0
    rate_used: int = 0
    rate_period: str = ""
    in_flight: tuple[tuple[str, str, int], ...] = ()
    """Object, cluster that is left, replicas."""
    recent: tuple[tuple[str, datetime | None, str, str], ...] = ()
    """Object, time, reason, and the user who asked for it."""
    version_of_model: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class RebalanceRow(FactsOfWorkload):
    phase: str
    before: tuple[tuple[str, int], ...] = ()
    after: tuple[tuple[str, int], ...] = ()
    message: str = ""


class RebalanceFacts(Facts):
    name: str
    created: datetime | None = None
    finished: datetime | None = None
    suspended: bool = False
    cancelled: bool = False
    schedule: str = ""
    next_run: datetime | None = None
    max_parallel: int = 0
    strategy: str = ""
    requested_by: str = ""
    stalled: str = ""
    rows: tuple[RebalanceRow, ...] = ()
    revision: str = ""
    version_of_model: int = 0

    @property
    def state(self) -> str:
        if self.finished is not None and self.count("Failed"):
            return "failed"
        if self.cancelled and (self.finished is None or self.count("Cancelled")):
            return "stop"
        if self.finished is not None:
            return "done"
        if self.suspended:
            return "pause"
        return "stuck" if self.stalled else "move"

    @property
    def settled(self) -> int:
        """The workloads that were rescheduled, whatever came of it; those of an aborted rebalance that never began are not."""
        return self.count("Done", "NoChange", "Failed")

    @property
    def progress(self) -> str:
        """How far it is, in a sentence."""
        moving, blocked, withdrawn = self.count("Moving"), self.count("Blocked"), self.count("Cancelled")
        pending = len(self.rows) - self.settled - moving - blocked - withdrawn
        parts = [f"{self.settled} of {len(self.rows)} {verb(self.settled, 'is', 'are')} settled"]
        parts += [f"{moving} {verb(moving, 'moves', 'move')}"] if moving else []
        parts += [f"{blocked} {verb(blocked, 'is', 'are')} blocked"] if blocked else []
        parts += [f"{pending} {verb(pending, 'waits for its', 'wait for their')} turn"] if pending else []
        parts += [f"{withdrawn} {verb(withdrawn, 'was', 'were')} withdrawn before the start"] if withdrawn else []
        return f"{', '.join(parts)}."

    def count(self, *phases: str) -> int:
        return sum(row.phase in phases for row in self.rows)


class EventFacts(Facts):
    """An event of an object."""

    at: datetime
    reason: str
    message: str
    warning: bool = False
    count: int = 1


def event_facts(raw: Raw) -> EventFacts | None:
    """An event as the timeline shows it; None without a readable time."""
    series = raw.get("series") or {}
    text = series.get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("eventTime") or ""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return EventFacts(
        at=at,
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or "")[:1000],
        warning=raw.get("type") == "Warning",
        count=int(series.get("count") or raw.get("count") or 1),
    )


def move_facts(move: Move, version: int = 0) -> MoveFacts:
    spec, status = move.spec, move.status
    return MoveFacts(
        namespace=spec.object.namespace,
        id=f"{move.namespace or LOG_NAMESPACE}/{move.name}",
        kind=spec.object.kind,
        name=spec.object.name,
        cause=spec.cause,
        source=spec.from_,
        targets=tuple((target.name, target.replicas) for target in spec.to),
        replicas=spec.replicas,
        mode=spec.mode,
        by="" if spec.by in COMPONENTS else spec.by,
        budgets=tuple(use.name for use in spec.budgets),
        outcome=status.outcome,
        started=status.started or move.metadata.creation_timestamp,
        finished=status.finished,
        message=status.message or spec.message,
        generation=move.metadata.annotations.get(GENERATION_ANNOTATION, ""),
        version_of_model=version,
    )


def selector_text(selector: Any) -> str:
    """A label selector as kubectl prints it."""
    if selector is None:
        return "nothing"
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for rule in selector.match_expressions:
        values = f" ({', '.join(rule.values)})" if rule.values else ""
        parts.append(f"{rule.key} {rule.operator.lower()}{values}")
    return ", ".join(parts) or "everything in the namespace"


def budget_facts(budget: DisruptionBudget, version: int = 0) -> BudgetFacts:
    spec, status = budget.spec, budget.status
    allowing = find_condition(status.conditions, "DisruptionsAllowed")
    rate = status.rate
    return BudgetFacts(
        namespace=budget.namespace,
        name=budget.name,
        target=spec.target,
        selector=selector_text(spec.selector),
        open=allowing.status == "True" if allowing is not None else bool(status.allowed_now),
        needs_approval=spec.approval == "Required",
        why=allowing.message if allowing is not None else "",
        allowed_now=status.allowed_now,
        next_allowed_at=status.next_allowed_at,
        desired=status.desired or status.expected_pods,
        available=status.available if status.available is not None else status.current_healthy,
        involuntary=status.unavailable.involuntary if status.unavailable is not None else 0,
        min_available="" if spec.min_available is None else str(spec.min_available),
        max_unavailable="" if spec.max_unavailable is None else str(spec.max_unavailable),
        max_concurrent=spec.max_concurrent or 0,
        windows=tuple(f"{window.schedule} +{window.duration} {window.time_zone}" for window in spec.windows),
        rate_limit=spec.rate.disruptions if spec.rate is not None else 0,
        rate_used=rate.in_window if rate is not None else 0,
        rate_period=spec.rate.period if spec.rate is not None else "",
        in_flight=tuple((entry.object, entry.from_, entry.replicas) for entry in status.in_flight),
        recent=tuple(
            (entry.object, entry.at, entry.reason, "" if entry.by in COMPONENTS else entry.by)
            for entry in (rate.recent if rate is not None else ())
        ),
        version_of_model=version,
    )


def rebalance_facts(job: WorkloadRebalancer, version: int = 0) -> RebalanceFacts:
    stalled = find_condition(job.status.conditions, "Stalled")
    return RebalanceFacts(
        name=job.name,
        created=job.metadata.creation_timestamp,
        finished=job.status.finish_time,
        suspended=job.spec.suspend,
        cancelled=job.spec.cancel,
        schedule=job.spec.schedule,
        next_run=job.status.next_schedule_time,
        max_parallel=job.spec.max_parallel,
        strategy=job.spec.strategy or "Fresh",
        requested_by=job.metadata.annotations.get(well_known.REQUESTER, ""),
        stalled=stalled.message if stalled is not None and is_condition_true([stalled], "Stalled") else "",
        rows=tuple(
            RebalanceRow(
                namespace=item.workload.namespace,
                kind=item.workload.kind,
                name=item.workload.name,
                phase=item.phase or ("Failed" if item.result == "Failed" else "Pending"),
                before=tuple((target.name, target.replicas) for target in item.before),
                after=tuple((target.name, target.replicas) for target in item.after),
                message=item.message,
            )
            for item in job.status.observed_workloads
        ),
        revision=job.metadata.resource_version,
        version_of_model=version,
    )


def is_recent(move: MoveFacts, now: datetime, period: timedelta) -> bool:
    return move.started is not None and now - move.started <= period
