"""What the pages say about one object: clusters, workloads, moves, budgets and rebalances as small frozen values."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import AggregatedStatusItem, Binding
from trimtab.api.quantity import InvalidQuantity, milli_value
from trimtab.api.value import Condition, Raw, Value
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, is_condition_true
from trimtab.controllers.movement.binding_moves import (
    COUNTED_IN_REPLICAS,
    GENERATION_ANNOTATION,
    LOG_NAMESPACE,
    last_rebalancer_of,
    stalled_condition_of,
)
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, DYNAMIC, STATIC, placement_request_of

READY, DARK, DRAINING, CORDONED, JOINING = "ok", "dark", "drain", "closed", "new"
"""States of a cluster."""
NOWHERE, STUCK, WAITING, SHORT, MOVING, PLACED = "none", "stuck", "wait", "short", "move", "ok"
"""States of a workload, the most urgent first."""
WORKLOAD_STATES = (NOWHERE, STUCK, WAITING, SHORT, MOVING, PLACED)
CORDON_TAINT = "cluster.karmada.io/unschedulable"
CLUSTER_WIDE = "-"
"""The namespace of a cluster-wide workload in addresses."""
CORES = 1000.0
MAX_LOAD = 1000.0
GIB = 1000.0 * (1 << 30)
COMPONENTS = frozenset(
    {
        "trimtab-mover",
        well_known.TAINT_MANAGER,
        "resource-binding-application-failover-controller",
        "cluster-resource-binding-application-failover-controller",
    }
)
"""What decides moves by itself; a move that names something else was asked for by a user."""
DIVISIONS = {
    DUPLICATED: "a copy in every cluster",
    STATIC: "by weight",
    DYNAMIC: "by available capacity",
    AGGREGATED: "in few clusters",
    BY_SCORE: "by score",
}


Facts = Value
"""What pages and their JSON form are made of."""


class ClusterFacts(Facts):
    name: str
    state: str
    region: str = ""
    zones: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    sync_mode: str = ""
    since: datetime | None = None
    """Since when the Ready condition has its status."""
    message: str = ""
    drain_since: str = ""
    drain_by: str = ""
    """The user who began the drain."""
    cordoned: bool = False
    simulated: bool = False
    ready_nodes: int = 0
    nodes: int = 0
    cpu: float = 0.0
    cpu_used: float = 0.0
    memory: float = 0.0
    """GiB."""
    memory_used: float = 0.0
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    version_of_model: int = 0

    @property
    def load(self) -> float:
        """The requested share of the CPU; a cluster that reports next to no CPU is not infinitely loaded."""
        return min(self.cpu_used / self.cpu, MAX_LOAD) if self.cpu else 0.0

    @property
    def is_ready(self) -> bool:
        return self.state not in (DARK, JOINING)


class Cell(Facts):
    """The replicas of one workload in one cluster."""

    target: int = 0
    ready: int = 0
    held: int = 0
    """Kept until their replacement is ready."""
    blocked: int = 0
    """Should leave and must wait."""
    starting: int = 0
    lost: int = 0
    """In a cluster that does not answer."""

    @property
    def shown(self) -> int:
        return self.ready + self.held + self.blocked + self.starting + self.lost

    def runs(self) -> list[tuple[str, int]]:
        """The replicas as runs of equal dots."""
        return [
            ("ready", self.ready),
            ("held", self.held),
            ("blocked", self.blocked),
            ("start", self.starting),
            ("lost", self.lost),
        ]


class WorkloadFacts(Facts):
    namespace: str
    kind: str
    name: str
    api_version: str
    binding: tuple[str, str]
    state: str
    desired: int = 0
    ready: int = 0
    counted: bool = True
    """Whether it has replicas; a ConfigMap has none."""
    cells: dict[str, Cell] = {}
    why: str = ""
    """The message of the condition that says what blocks it."""
    reason: str = ""
    since: datetime | None = None
    """When the state was last decided or blocked."""
    until: datetime | None = None
    """When the moves in progress time out."""
    how: str = ""
    group: str = ""
    policy: str = ""
    rebalancer: str = ""
    needs_approval: bool = False
    """Whether it waits for a person who approves its move."""
    cpu_request: float = 0.0
    labels: dict[str, str] = {}
    version_of_model: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace or CLUSTER_WIDE}/{self.kind}/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def severity(self) -> int:
        return WORKLOAD_STATES.index(self.state)


class MoveFacts(Facts):
    namespace: str
    """Of the moved object; empty when it is cluster-wide."""
    id: str
    kind: str
    name: str
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
    def key(self) -> str:
        return f"{self.namespace or CLUSTER_WIDE}/{self.kind}/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

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


class RebalanceRow(Facts):
    namespace: str
    kind: str
    name: str
    phase: str
    before: tuple[tuple[str, int], ...] = ()
    after: tuple[tuple[str, int], ...] = ()
    message: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace or CLUSTER_WIDE}/{self.kind}/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


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
        if self.finished is not None:
            return "done"
        if self.cancelled:
            return "stop"
        if self.suspended:
            return "pause"
        return "stuck" if self.stalled else "move"

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


def amount(quantities: Mapping[str, Any], name: str, unit: float) -> float:
    try:
        return milli_value(quantities[name]) / unit if name in quantities else 0.0
    except (InvalidQuantity, ValueError):
        return 0.0


def cluster_state(cluster: Cluster) -> str:
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is None:
        return JOINING
    if ready.status != "True":
        return DARK
    if well_known.DRAIN in cluster.metadata.annotations or cluster.metadata.deletion_timestamp is not None:
        return DRAINING
    return CORDONED if any(taint.key == CORDON_TAINT for taint in cluster.spec.taints) else READY


def cluster_facts(cluster: Cluster, version: int = 0) -> ClusterFacts:
    ready = find_condition(cluster.status.conditions, "Ready")
    nodes, summary = cluster.status.node_summary, cluster.status.resource_summary
    has = summary.allocatable if summary is not None else {}
    used = (summary.allocated, summary.allocating) if summary is not None else ()
    drain = cluster.metadata.annotations.get(well_known.DRAIN, "")
    return ClusterFacts(
        name=cluster.name,
        state=cluster_state(cluster),
        region=cluster.spec.region,
        zones=cluster.spec.zones,
        provider=cluster.spec.provider,
        version=cluster.status.kubernetes_version,
        sync_mode=cluster.spec.sync_mode,
        since=ready.last_transition_time if ready is not None else None,
        message=(ready.message or ready.reason) if ready is not None else "",
        drain_since=drain.split()[0] if drain else "",
        drain_by=cluster.metadata.annotations.get(well_known.REQUESTER, "") if drain else "",
        cordoned=any(taint.key == CORDON_TAINT for taint in cluster.spec.taints),
        ready_nodes=nodes.ready_num if nodes is not None else 0,
        nodes=nodes.total_num if nodes is not None else 0,
        cpu=amount(has, "cpu", CORES),
        cpu_used=math.fsum(amount(part, "cpu", CORES) for part in used),
        memory=amount(has, "memory", GIB),
        memory_used=math.fsum(amount(part, "memory", GIB) for part in used),
        taints=tuple(
            f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}" for taint in cluster.spec.taints
        ),
        labels=dict(cluster.metadata.labels),
        version_of_model=version,
    )


def reported_replicas(binding: Binding, item: AggregatedStatusItem, share: int) -> int:
    """The ready replicas that a cluster reports, as the disruption gate counts them."""
    if not item.applied:
        return 0
    status = item.status or {}
    for field in ("readyReplicas", "numberReady"):
        if isinstance(status.get(field), int):
            return int(status[field])
    if "replicas" in status or binding.spec.resource.kind in COUNTED_IN_REPLICAS:
        return 0
    return share if item.health != "Unhealthy" else 0


def workload_cells(binding: Binding, states: Mapping[str, str], *, waits: bool) -> dict[str, Cell]:
    """The replicas per cluster; `states` are the states of the clusters."""
    targets = {target.name: target.replicas for target in binding.spec.clusters}
    holds = {hold.cluster: hold.replicas for hold in binding.status.holds}
    reports = {item.cluster_name: item for item in binding.status.aggregated_status}
    leaving = {task.from_cluster: task.replicas or 0 for task in binding.spec.graceful_eviction_tasks}
    cells: dict[str, Cell] = {}
    for name in sorted({*targets, *holds, *leaving}):
        target, held = targets.get(name, 0), holds.get(name, 0) or (leaving.get(name, 0) if name not in targets else 0)
        state = states.get(name, READY)
        if state == DARK:
            cells[name] = Cell(target=target, lost=target + held)
            continue
        item = reports.get(name)
        seen = reported_replicas(binding, item, target + held) if item is not None else 0
        held = min(held, seen)
        ready = min(target, seen - held)
        blocked = ready if waits and state == DRAINING else 0
        cells[name] = Cell(
            target=target, ready=ready - blocked, held=held, blocked=blocked, starting=max(0, target - ready)
        )
    return cells


def blocking_condition(binding: Binding) -> Condition | None:
    """The condition that says why the workload is not placed, or does not move as decided."""
    scheduled = find_condition(binding.status.conditions, "Scheduled")
    if scheduled is not None and scheduled.status == "False" and not binding.spec.clusters:
        return scheduled
    stalled = stalled_condition_of(binding)
    if stalled is not None:
        return stalled
    return scheduled if scheduled is not None and scheduled.status == "False" else None


def workload_state(binding: Binding, blocking: Condition | None, *, short: bool) -> str:
    if blocking is not None and not binding.spec.clusters:
        return NOWHERE
    if blocking is not None:
        return WAITING if blocking.reason == MOVE_BLOCKED else STUCK
    if binding.status.holds or binding.spec.graceful_eviction_tasks:
        return MOVING
    return SHORT if short else PLACED


def division_of(binding: Binding) -> str:
    if not binding.spec.replicas and binding.spec.replica_requirements is None:
        return "a copy in every cluster"
    strategy = placement_request_of(binding).placement.strategy if binding.spec.placement is not None else ""
    return DIVISIONS.get(strategy, "")


def policy_of(binding: Binding) -> str:
    notes = binding.metadata.annotations
    if well_known.PP_NAME in notes:
        return f"{notes.get(well_known.PP_NAMESPACE, '')}/{notes[well_known.PP_NAME]}"
    return notes.get(well_known.CPP_NAME, "")


def workload_facts(
    binding: Binding, states: Mapping[str, str], labels: Mapping[str, str] | None = None, version: int = 0
) -> WorkloadFacts:
    """Everything that a row says about a workload."""
    spec, blocking = binding.spec, blocking_condition(binding)
    waits = blocking is not None and bool(spec.clusters)
    cells = workload_cells(binding, states, waits=waits)
    counted = spec.replicas > 0 or bool(spec.replica_requirements)
    how = division_of(binding)
    copies = how == DIVISIONS[DUPLICATED] and counted
    desired = spec.replicas * max(1, len(spec.clusters)) if copies else spec.replicas
    ready = sum(cell.ready + cell.held + cell.blocked for cell in cells.values())
    request = spec.replica_requirements.resource_request if spec.replica_requirements is not None else {}
    untils = [hold.until for hold in binding.status.holds if hold.until is not None]
    resource = spec.resource
    return WorkloadFacts(
        namespace=resource.namespace,
        kind=resource.kind,
        name=resource.name,
        api_version=resource.api_version,
        binding=(binding.namespace, binding.name),
        state=workload_state(binding, blocking, short=counted and ready < desired),
        desired=desired,
        ready=ready,
        counted=counted,
        cells=cells,
        why=(blocking.message or blocking.reason) if blocking is not None else "",
        reason=blocking.reason if blocking is not None else "",
        since=blocking.last_transition_time if blocking is not None else binding.status.last_scheduled_time,
        until=min(untils, default=None),
        how=how,
        group=binding.status.scheduler_observing_affinity_name,
        policy=policy_of(binding),
        rebalancer=last_rebalancer_of(binding),
        needs_approval=binding.status.pending_approval is not None,
        cpu_request=amount(request, "cpu", CORES),
        labels={name: value for name, value in (labels or {}).items() if "karmada.io/" not in name},
        version_of_model=version,
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
