"""From a decision to what is written: what it takes away passes the door, and stays until its replacement is ready."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.rebalancer import MoveOptions, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, Hold, Replacement, TargetCluster
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Note, View, Wish
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.propagation.work_rendering import is_workload
from trimtab.decide.gate import Flow, Passage, Refusal, admit, applied, debited, flows, gate_of, surge_of
from trimtab.decide.karmada import Decision
from trimtab.decide.request import DUPLICATED

BUDGETED = ("Rebalance", "Failback", "ScoreChange", "Drain", "PolicyChange", "Reschedule")
"""Voluntary causes: they ask before they take anything away."""
HELD = ("Rebalance", "Failback", "ScoreChange", "Drain")
"""Causes that wait for the replacement by default; the author of a policy edit knows what he does."""
REPLACEMENT_FIRST, AT_ONCE = "ReplacementFirst", "AtOnce"
SOURCE = "trimtab-mover"
BLOCKED = "MoveBlocked"


class Outset(NamedTuple):
    """What begins now: what is written before the binding, the binding's new shares and holds, and what must wait."""

    debits: tuple[DisruptionBudget, ...]
    log: tuple[Wish, ...]
    clusters: tuple[TargetCluster, ...]
    holds: tuple[Hold, ...]
    replacement: Replacement | None
    refusal: Refusal | None

    @property
    def complete(self) -> bool:
        return self.refusal is None


class Waiting(NamedTuple):
    """Somebody else of this batch spends the same budget: ask again in a moment."""


def outset(
    binding: Binding, decision: Decision, cause: str, options: MoveOptions, view: View, busy: set[Key]
) -> Outset | Waiting:
    """What of this decision may begin now."""
    base, after = binding_moves.base(binding), dict(decision.clusters)
    planned = flows(base, after)
    running = {hold.cluster for hold in binding.status.holds}
    asking = [flow for flow in planned if flow.source not in running]
    budgets = binding_moves.budgets_of(binding, view, cause) if cause in BUDGETED and asking else []
    if any(key_of(budget) in busy for budget in budgets):
        return Waiting()
    gates = [gate_of(budget, binding_moves.footing(budget, view), view.now) for budget in budgets]
    mode = mode_of(binding, planned, cause, options, view, budgeted=bool(budgets))
    if any(flow.to for flow in planned) and any(gate.surge and gate.replicas == 0 for gate in gates):
        mode = REPLACEMENT_FIRST  # at once it would be blocked, and the budget offers this way out
    first = mode == REPLACEMENT_FIRST
    passage = admit(
        asking,
        gates,
        view.now,
        replacement_first=first,
        surge=surge_of(options.max_surge, sum(after.values())) if first and options.max_surge != "100%" else None,
        divisible=decision.ask.workload and decision.ask.plan.strategy != DUPLICATED,
    )
    continued = [flow for flow in planned if flow.source in running]
    shares = applied(base, after, (*continued, *passage.flows))
    holds = holds_of(binding, base, shares, cause, options, view) if first else ()
    busy.update(map(key_of, budgets))
    return Outset(
        tuple(charged(binding, budget, passage, cause, options, view) for budget in budgets if passage.flows),
        tuple(logged(binding, passage, binding_moves.Cause(cause, SOURCE, mode, budgets=tuple(budgets)), view)),
        binding_moves.targets_of(shares, decision.targets, binding.spec.clusters),
        holds,
        replacement_of(binding, view) if holds else None,
        passage.refusal,
    )


def mode_of(
    binding: Binding, planned: list[Flow], cause: str, options: MoveOptions, view: View, *, budgeted: bool
) -> str:
    """Whether the old replicas wait for the new ones. Without a replacement there is nothing to wait for."""
    if not any(flow.to for flow in planned):
        return AT_ONCE
    if binding.status.holds:
        return REPLACEMENT_FIRST
    template = view.raw(well_known.template_ref(binding))
    asked = options.mode or (
        well_known.annotations_of(template).get(well_known.MOVE_MODE, "") if template is not None else ""
    )
    if asked == AT_ONCE and cause in HELD and takes_the_last_copy(binding, planned, view):
        return REPLACEMENT_FIRST
    if asked in (AT_ONCE, REPLACEMENT_FIRST):
        return asked
    return REPLACEMENT_FIRST if cause in HELD or budgeted else AT_ONCE


def takes_the_last_copy(binding: Binding, planned: list[Flow], view: View) -> bool:
    """Whether nothing that is ready would be left; what is not counted in replicas leaves a cluster whole."""
    ready = binding_moves.ready_everywhere(binding, view)
    leaving = {flow.source: flow.replicas for flow in planned}
    left = {name: n - leaving[name] if is_workload(binding) else 0 for name, n in ready.items() if name in leaving}
    return any(ready.values()) and not any(n > 0 for n in {**ready, **left}.values())


def holds_of(
    binding: Binding, base: dict[str, int], shares: dict[str, int], cause: str, options: MoveOptions, view: View
) -> tuple[Hold, ...]:
    """One hold for each cluster that is to have less than it has, as long as it takes."""
    known = {hold.cluster: hold for hold in binding.status.holds}
    held = []
    for name, had in sorted(base.items()):
        less = had - shares.get(name, 0)
        if less > 0 or name not in shares:
            until = view.now + timedelta(seconds=options.timeout_seconds)
            fresh = Hold(cluster=name, since=view.now, until=until, reason=cause)
            held.append(known.get(name, fresh).but(replicas=less))
    return tuple(held)


def replacement_of(binding: Binding, view: View) -> Replacement:
    if binding.status.holds and binding.status.replacement is not None:
        return binding.status.replacement
    ready = binding_moves.ready_everywhere(binding, view)
    return Replacement(
        before=binding.spec.clusters,
        ready=tuple(TargetCluster(name=name, replicas=n) for name, n in sorted(ready.items())),
        affinity_name=binding.status.scheduler_observing_affinity_name,
    )


def charged(
    binding: Binding, budget: DisruptionBudget, passage: Passage, cause: str, options: MoveOptions, view: View
) -> DisruptionBudget:
    entries = [binding_moves.in_flight(binding, flow, cause, SOURCE, view.now) for flow in passage.flows]
    return debited(budget, entries, view.now)


def logged(binding: Binding, passage: Passage, cause: binding_moves.Cause, view: View) -> Iterator[Wish]:
    for flow in passage.flows:
        entry = binding_moves.log_entry(binding, flow, cause, view.now)
        if view.get(type(entry), entry.namespace, entry.name) is None:
            yield entry


def started(binding: Binding, begun: Outset, cause: str) -> Iterator[Note]:
    """Tell people what leaves where."""
    for hold in begun.holds:
        if hold not in binding.status.holds:
            text = f"{hold.replicas} replicas in {hold.cluster} wait until their replacement is ready ({cause})."
            yield Note(well_known.ref_of(binding), "MoveStarted", text, SOURCE)


def options_for(binding: Binding, view: View) -> MoveOptions:
    """How replicas leave: as the rebalancer that asked for it says, else as is usual here."""
    asked = binding_moves.asked_by(binding)
    job = view.get(WorkloadRebalancer, "", asked.rebalancer) if asked.rebalancer else None
    if job is not None and job.spec.move is not None:
        return job.spec.move
    return MoveOptions(timeout_seconds=int(well_known.setting(view, "move-timeout-seconds", default=600)))
