"""What the pages say about one workload: its state, and what it has in each cluster."""

from collections.abc import Mapping
from datetime import datetime

from trimtab.api.kinds.work import Binding
from trimtab.api.value import Condition
from trimtab.console.cluster_facts import CORES, DARK, DRAINING, READY, amount
from trimtab.console.facts import Facts, FactsOfWorkload
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement.binding_moves import (
    last_rebalancer_of,
    reported_replicas,
    stalled_condition_of,
)
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.decide.request import AGGREGATED, BY_SCORE, DUPLICATED, DYNAMIC, STATIC, placement_request_of

NOWHERE, STUCK, WAITING, SHORT, MOVING, PLACED = "none", "stuck", "wait", "short", "move", "ok"
"""States of a workload, the most urgent first."""
WORKLOAD_STATES = (NOWHERE, STUCK, WAITING, SHORT, MOVING, PLACED)
DIVISIONS = {
    DUPLICATED: "a copy in every cluster",
    STATIC: "by weight",
    DYNAMIC: "by available capacity",
    AGGREGATED: "in few clusters",
    BY_SCORE: "by score",
}


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


class WorkloadFacts(FactsOfWorkload):
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
    def severity(self) -> int:
        return WORKLOAD_STATES.index(self.state)


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
