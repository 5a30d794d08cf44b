"""The plan of a WorkloadRebalancer as its status: what `dryRun=All` answers."""

from trimtab.api.kinds.rebalancer import ObservedWorkload, RebalancerStatus, WorkloadReference
from trimtab.api.value import Condition, Raw
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_report import note_text, start_text
from trimtab.dryrun.plan_result import NOW, REFUSED, STEPS, UNCHANGED, Plan, PlannedWorkload

PLANNED = "Planned"
"""The condition that only a dry run has: its message is the verdict."""


def preview_status(spec: Raw, state: FleetState) -> RebalancerStatus:
    """What the rebalancer would do, in the fields in which it reports what it has done."""
    plan = make_plan(state, Change(rebalance=spec))
    rows = [row for row in plan.workloads if row.cause == "Rebalance"]
    return RebalancerStatus(
        observed_workloads=tuple(observed_workload_of(row, plan) for row in rows),
        conditions=(
            Condition(
                type=PLANNED,
                status="True",
                reason=plan.verdict.outcome,
                message=plan.verdict.message,
                last_transition_time=state.now.replace(microsecond=0),
            ),
        ),
    )


def observed_workload_of(row: PlannedWorkload, plan: Plan) -> ObservedWorkload:
    kind, *names = row.workload.split("/")
    named = [ref for ref in references(plan.change.rebalance or {}) if ref["kind"] == kind]
    versions = {ref["apiVersion"] for ref in named}
    start = start_text(row)
    return ObservedWorkload(
        workload=WorkloadReference(
            api_version=min(versions, default=""),
            kind=kind,
            namespace=names[0] if len(names) > 1 else "",
            name=names[-1],
        ),
        result="Failed" if row.action == REFUSED else "",
        reason=row.refusal.code if row.refusal is not None else "",
        phase=phase_of(row),
        before=row.before,
        after=row.after,
        message="; ".join(part for part in (f"starts {start}" if start != "-" else "", note_text(row)) if part),
    )


def references(spec: Raw) -> list[Raw]:
    return [*spec.get("workloads", ()), *spec.get("selectors", ())]


def phase_of(row: PlannedWorkload) -> str:
    if row.action == REFUSED:
        return "Failed"
    if row.action == UNCHANGED:
        return "NoChange"
    return "Pending" if row.start in (NOW, STEPS) else "Blocked"
