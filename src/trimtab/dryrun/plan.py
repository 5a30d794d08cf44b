"""Plans: what a change would do to a fleet, computed by the controllers' own functions on a copy of its state.

`make_plan(state, change)` is pure. It applies the change to the state (`apply_change`), asks for every binding what the
controllers would decide (`cases_of`: the detector for templates and policies, the taint eviction for lost and tainted
clusters, the scheduler for the rest), decides all of them together, so that they reserve capacity from each other as in
one batch of the scheduler, and passes each decision through the disruption gate. Charged budgets are visible to the next
decision, so the second workload of a budget sees what the first one used.

A plan describes the end state and what may begin now. It does not follow time: how long budgets, windows and start-up
times delay the rest is found out by a forecast, which runs the control plane on a virtual clock from the same state.

A workload whose earlier move is still in progress is decided as if that move were finished: the scheduler waits for it
and then decides from there.
"""

from collections.abc import Collection, Iterator, Sequence

from trimtab import plugins
from trimtab.api.kind import find_kind
from trimtab.api.wording import plural, verb
from trimtab.controllers import well_known
from trimtab.controllers.feature_gates import feature_gates
from trimtab.controllers.propagation.scheduling.adjustment import adjust_to_intent
from trimtab.controllers.propagation.scheduling.intent import intent_of
from trimtab.controllers.propagation.scheduling.scope import is_scheduled_here
from trimtab.controllers.quota.quota_usage import QuotaLedger
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.karmada import decide, decide_all
from trimtab.dryrun.change import Change, apply_change, lost_clusters
from trimtab.dryrun.fleet_state import FleetState, name_of
from trimtab.dryrun.plan_cases import (
    Case,
    Situation,
    case_of,
    cases_of,
    evacuation_delay,
    join_name,
    without_moves_in_progress,
    workload_name,
)
from trimtab.dryrun.plan_costs import budget_costs, verdict_of
from trimtab.dryrun.plan_loads import cluster_loads, recent_changes
from trimtab.dryrun.plan_outcomes import Outcome, in_order, outcomes_of
from trimtab.dryrun.plan_result import (
    CREATE,
    MOVE,
    REFUSED,
    SCALE,
    UNCHANGED,
    BudgetCost,
    Plan,
    PlannedWorkload,
    digest_of,
)
from trimtab.interpret.names import binding_name


def make_plan(state: FleetState, change: Change) -> Plan:
    """What this change would do. Pure: equal states and changes give equal plans."""
    plugins.load_for_clusters()
    after = apply_change(state, change)
    view, view_before = after.view(), state.view()
    fleet = view.fleet
    lost = frozenset(lost_clusters(after, change))
    situation = Situation(change, state, after, view, fleet, view_before, view_before.fleet, lost)
    cases: list[Case] = []
    rows: list[PlannedWorkload] = []
    for found in cases_of(situation):
        if isinstance(found, Case):
            cases.append(found)
        else:
            rows.append(found)
    decisions, _ = decide_all([case.intent.request for case in cases], fleet, view.profile)
    quotas = QuotaLedger(view)
    decided = [
        (case, quotas.check(case.binding, adjust_to_intent(case.binding, decision, case.intent)))
        for case, decision in zip(cases, decisions, strict=True)
    ]
    outcomes = list(outcomes_of(decided, situation))
    rows += [with_pending_mark(outcome, situation) for outcome in outcomes]
    asked = {case.name for case in cases if case.is_asked}
    listed = sorted(
        (row for row in rows if is_listed(row) and (row.workload in asked or not is_refused_already(row, situation))),
        key=lambda row: row.workload,
    )
    named = {row.workload for row in listed}
    moves = tuple(in_order([move for outcome in outcomes for move in outcome.moves]))
    costs = budget_costs(situation, outcomes)
    loads = cluster_loads(state, outcomes, situation.lost, recent_changes(state))
    plan = Plan(
        created=state.now,
        profile=state.profile.name,
        change=change,
        objects=tuple(described_objects(situation)),
        workloads=tuple(listed),
        unchanged=sum(workload_name(binding) not in named for binding in state.bindings),
        moves=moves,
        budgets=costs,
        load=loads,
        warnings=(*warnings_of(outcomes, situation), *budget_warnings(costs), *selection_warnings(change, rows, asked)),
        evacuation_starts_after=evacuation_delay(view) if situation.lost else None,
    )
    plan = plan.but(verdict=verdict_of(plan, cluster_loads(state, outcomes, situation.lost)))
    return plan.but(hash=digest_of(plan))


def selection_warnings(change: Change, rows: Sequence[PlannedWorkload], asked: Collection[str]) -> Iterator[str]:
    if change.rebalance is not None and not asked and not any(row.cause == "Rebalance" for row in rows):
        yield "the rebalance selects no workload"


def is_listed(row: PlannedWorkload) -> bool:
    """Whether the plan lists the workload: it changes, is refused, or was selected for a rebalance."""
    return row.action != UNCHANGED or row.cause == "Rebalance"


def is_refused_already(row: PlannedWorkload, situation: Situation) -> bool:
    """Whether a workload that the change does not name finds no place without it as well."""
    if row.action != REFUSED or row.lost_replicas or not row.cause:
        return False
    kind, _, rest = row.workload.partition("/")
    namespace, slash, name = rest.rpartition("/")
    view = situation.view_before
    seen = well_known.binding_at(view, namespace if slash else "", binding_name(kind, name))
    if seen is None:
        return False
    earlier = situation._replace(after=situation.before, view=view, fleet=situation.fleet_before, lost=frozenset())
    found = case_of(row.workload, without_moves_in_progress(seen), earlier, is_new=False)
    if isinstance(found, Case):
        return not decide(found.intent.request, situation.fleet_before, view.profile).ok
    return found is not None and found.note == row.note


def with_pending_mark(outcome: Outcome, situation: Situation) -> PlannedWorkload:
    """The row, marked when the control plane is about to do the same without the change: a drain in progress."""
    row, case, state = outcome.row, outcome.case, situation.before
    if row.action not in (MOVE, SCALE) or case.evicted or case.is_new:
        return row
    view = situation.view_before
    seen = well_known.binding_at(view, case.binding.namespace, case.binding.name)
    intent = intent_of(seen, situation.fleet_before, feature_gates(view), view) if seen is not None else None
    if seen is None or intent is None or not is_scheduled_here(seen):
        return row
    decision = adjust_to_intent(seen, decide(intent.request, situation.fleet_before, state.profile), intent)
    return row.but(is_pending=decision.ok and decision.clusters == outcome.decision.clusters)


def described_objects(situation: Situation) -> Iterator[str]:
    """What applying does to each object: it is created, configured, or stays as it is."""
    before, after = situation.before, situation.after
    for raw in situation.change.objects:
        kind, (namespace, name) = find_kind(raw["apiVersion"], raw["kind"]), name_of(raw)
        gvk = (raw["apiVersion"], raw["kind"])
        seen: object = before.templates.get(gvk, {}).get((namespace, name))
        new: object = after.templates.get(gvk, {}).get((namespace, name))
        if seen is None and kind is not None:
            seen, new = before.get(kind.type, namespace, name), after.get(kind.type, namespace, name)
        word = "created" if seen is None else "unchanged" if seen == new else "configured"
        yield f"{join_name(raw['kind'], namespace, name)} {word}"


def warnings_of(outcomes: Sequence[Outcome], situation: Situation) -> Iterator[str]:
    """What is not refused and still worth knowing: shares without room, and budgets that a failure breaks."""
    for outcome in outcomes:
        decision, row = outcome.decision, outcome.row
        if row.action not in (CREATE, MOVE, SCALE) or not decision.ok or not decision.request.is_workload:
            continue
        room = estimate_free_replicas(
            decision.request, situation.fleet, from_nodes=situation.after.profile.capacity_from_nodes
        )
        for name, n in decision.clusters:
            gain, fits = n - outcome.case.before.get(name, 0), int(room[situation.fleet.index[name]])
            if gain > fits:
                yield (
                    f"{row.workload}: {name} gets {plural(gain, 'more replica')} and has room for {fits}; "
                    "the policy divides by weights regardless of capacity"
                )


def budget_warnings(costs: Sequence[BudgetCost]) -> Iterator[str]:
    for cost in costs:
        if cost.missing:
            yield (
                f"budget {cost.budget}: the failure takes {cost.lost} ready replicas; "
                f"then {cost.missing} {verb(cost.missing, 'is', 'are')} missing to its minimum"
            )
