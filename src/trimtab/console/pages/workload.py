"""Workload: where it is, how it came there, why there and not elsewhere, and what happens next."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Raw
from trimtab.api.wording import plural
from trimtab.client.approvals import approve_move
from trimtab.client.client import Client, resource_of
from trimtab.console.actions import FIELD_MANAGER, ActionError, Form, action, value_of
from trimtab.console.decision_history import PastDecision
from trimtab.console.facts import CLUSTER_WIDE, BudgetFacts, EventFacts, MoveFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.moves import move_rows
from trimtab.console.permissions import sees
from trimtab.console.pictures.delivery import APPLIED, FAILED, PENDING, Delivery, Step
from trimtab.console.pictures.history import moves_at, stages_of, title_of
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, day_time, iso, path_to, reason_text, workload_path
from trimtab.console.why import WhyMatrix, affinity_text, explanation_of, help_for, unmet_affinity, why_matrix
from trimtab.console.workload_facts import WAITING, WorkloadFacts
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement import state
from trimtab.controllers.movement.approval import text_of
from trimtab.errors import InputError, NotFound
from trimtab.server.auth.authorize import Action

ROUTINE = {
    "SyncSucceed",
    "SyncWorkSucceed",
    "AggregateStatusSucceed",
    "ApplyPolicySucceed",
    "MoveStarted",
    "MoveFinished",
}
"""Reasons of events that every change of an object causes, or that repeat a move; the timeline leaves them out."""
PLACED_EVENT = "ScheduleBindingSucceed"
EVENT_TITLES = {
    PLACED_EVENT: "Placed",
    "ScheduleBindingFailed": "Not placed",
    "EvictWorkloadFromClusterSucceed": "Evicted",
    "MoveBlocked": "A move waits",
    "MoveReverted": "Move reverted",
    "RescheduleTriggered": "Rebalance requested",
}
"""What the timeline calls frequent events; others have their reason."""


def workload_of(context: PageContext) -> WorkloadFacts:
    found = context.model.workloads.get("/".join(context.segments))
    if found is None or not sees(context.visibility.workloads, found.namespace):
        raise NotFound("there is no such workload, or you may not see it")
    return found


def pending_placement(workload: WorkloadFacts, why: WhyMatrix) -> dict[str, int] | None:
    """The placement of a decision that waits."""
    if workload.state != WAITING or why.message:
        return None
    return {row.name: row.replicas for row in why.rows if row.replicas}


def budgets_of(context: PageContext, workload: WorkloadFacts) -> list[BudgetFacts]:
    found = []
    for key, budget in context.model.typed_budgets.items():
        selector = budget.spec.selector
        if (
            budget.namespace == workload.namespace
            and budget.spec.target == "Workloads"
            and selector is not None
            and selector.matches(workload.labels)
        ):
            found.append(context.model.budgets[key])
    return found


def timeline_of(context: PageContext, workload: WorkloadFacts, binding: Binding) -> list[dict[str, Any]]:
    """Events of the template and of its binding, and the moves, the latest first."""
    entries: list[dict[str, Any]] = []
    if sees(context.visibility.events, workload.namespace):
        kind = "ResourceBinding" if workload.namespace else "ClusterResourceBinding"
        for subject in ((workload.kind, workload.namespace, workload.name), (kind, binding.namespace, binding.name)):
            entries += [
                {
                    "at": event.at,
                    "state": "wait" if event.warning else "ok",
                    "title": EVENT_TITLES.get(event.reason, event.reason),
                    "text": event_text(event, context.now),
                }
                for event in context.model.events.get(subject, {}).values()
                if event.warning or event.reason not in ROUTINE
            ]
    entries = list(without_repeated_entries(entries))
    may_see_moves = sees(context.visibility.moves, workload.namespace)
    for move in context.model.moves_in(workload.key) if may_see_moves else ():
        where = ", ".join(f"{name} {count}" for name, count in move.targets) or "nowhere"
        if move.started is not None:
            text = f"{plural(move.replicas, 'replica')} from {move.source} to {where}"
            entries.append(
                {"at": move.started, "state": "move", "title": f"Move begins: {cause_text(move.cause)}", "text": text}
            )
        if move.finished is not None:
            entries.append(
                {
                    "at": move.finished,
                    "state": "done",
                    "title": f"Move ends: {cause_text(move.cause)} {move.outcome.lower()}",
                    "text": f"from {move.source} to {where}: {move.message}"
                    if move.message
                    else f"from {move.source} to {where}",
                }
            )
    return sorted(entries, key=lambda entry: entry["at"], reverse=True)[:40]


def event_text(event: EventFacts, now: datetime) -> str:
    """The message of an event as a page says it; of a decision only the placement."""
    placement = placement_in(event.message) if event.reason == PLACED_EVENT else {}
    if placement:
        return ", ".join(f"{name} {count}" for name, count in sorted(placement.items()))
    return reason_text(event.message, now)


def without_repeated_entries(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One entry for what is reported several times in a second, such as a failure in each of many clusters."""
    groups: dict[tuple[datetime, str], list[dict[str, Any]]] = {}
    for entry in entries:
        groups.setdefault((entry["at"].replace(microsecond=0), entry["title"]), []).append(entry)
    for group in groups.values():
        texts = list(dict.fromkeys(entry["text"] for entry in group))
        more = f" (and {len(texts) - 1} more like this)" if len(texts) > 1 else ""
        yield {**group[0], "text": texts[0] + more}


RESULT = re.compile(r"Result: \{(.*)\}")


def decisions_of(context: PageContext, workload: WorkloadFacts) -> list[PastDecision]:
    """What was decided, the oldest first: as the history has it, and before that as events say."""
    noted = context.services.decisions(*workload.binding)
    if not sees(context.visibility.events, workload.namespace):
        return noted
    kind = "ResourceBinding" if workload.namespace else "ClusterResourceBinding"
    events = context.model.events.get((kind, *workload.binding), {}).values()
    found = [PastDecision(event.at, placement_in(event.message)) for event in events if event.reason == PLACED_EVENT]
    earlier = [one for one in found if one.placement and (not noted or one.at < noted[0].at)]
    return without_repetitions(sorted(earlier, key=lambda one: one.at), noted[0] if noted else None) + noted


def without_repetitions(decisions: list[PastDecision], following: PastDecision | None = None) -> list[PastDecision]:
    """The decisions but those that placed the workload as the one after them does; the scheduler reports some twice."""
    after = [*decisions[1:], following]
    pairs = zip(decisions, after, strict=False)
    return [one for one, other in pairs if other is None or one.placement != other.placement]


def decision_rows(
    decisions: list[PastDecision], moves: Sequence[MoveFacts], chosen: PastDecision | None
) -> list[dict[str, Any]]:
    """The decisions as rows, the latest first, each with what it changed and who or what caused it."""
    rows = []
    for number, one in enumerate(decisions):
        before = decisions[number - 1].placement if number else {}
        begun = moves_at(one.at, moves)
        rows.append(
            {
                "at": one.at,
                "link": iso(one.at),
                "title": title_of(one.placement, before if number else None, begun[0].cause if begun else ""),
                "placement": sorted(one.placement.items()),
                "before": before,
                "message": one.message,
                "fit": f"{one.feasible} of {one.clusters}" if one.clusters else "",
                "by": next((move.by for move in begun if move.by), ""),
                "is_chosen": one is chosen,
                "is_last": number == len(decisions) - 1,
            }
        )
    return rows[::-1]


def decision_at(context: PageContext, decisions: list[PastDecision]) -> PastDecision | None:
    """The decision that held at the time in the address; None without a time."""
    text = context.query.get("at", "")
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"at={text} is not a time such as {iso(context.now)}") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    known = [one for one in decisions if iso(one.at) <= iso(at)]  # addresses have milliseconds
    if not known:
        raise NotFound(f"no decision about this workload is known that was made before {day_time(at, context.now)}")
    return known[-1]


def placement_in(message: str) -> dict[str, int]:
    """The placement in a message such as `... Result: {m1:2, m2:1}`; clusters without replicas have none."""
    match = RESULT.search(message)
    placement: dict[str, int] = {}
    for part in match[1].split(",") if match is not None else ():
        name, _, count = part.strip().rpartition(":")
        if name and count.isdecimal() and int(count) > 0:
            placement[name] = int(count)
    return placement


def steps_of(workload: WorkloadFacts, binding: Binding, now: datetime) -> list[Step]:
    """The boxes from the template to the decision."""
    record, scheduled = binding.status.decision, find_condition(binding.status.conditions, "Scheduled")
    at = (record.time if record is not None else None) or binding.status.last_scheduled_time
    fit = f", {record.feasible_clusters} of {record.total_clusters} pass" if record is not None else ""
    failed = scheduled is not None and scheduled.status == "False"
    return [
        Step(
            title=workload.kind,
            text=workload.name,
            note=plural(workload.desired, "replica") if workload.counted else "",
        ),
        Step(title="Policy", text=workload.policy or "none", note=workload.how, is_missing=not workload.policy),
        Step(
            title="Decision",
            text="no cluster" if not workload.cells else plural(len(workload.cells), "cluster"),
            note=f"{day_time(at, now)}{fit}" if at is not None else "",
            is_missing=failed and not workload.cells,
        ),
    ]


def deliveries_of(workload: WorkloadFacts, binding: Binding) -> list[Delivery]:
    """How far each cluster is."""
    reports = {item.cluster_name: item for item in binding.status.aggregated_status}
    rows = []
    for name, cell in workload.cells.items():
        item = reports.get(name)
        state = PENDING if item is None else APPLIED if item.applied else FAILED
        rows.append(
            Delivery(
                cluster=name,
                state=state,
                message=item.applied_message if item is not None else "not reported yet",
                health=item.health if item is not None else "",
                cell=cell,
            )
        )
    return rows


def approval_of(binding: Binding) -> dict[str, Any] | None:
    """The move that waits for a person: its text, which the approval repeats, and where everything would run."""
    pending = binding.status.pending_approval
    if pending is None:
        return None
    return {
        "text": text_of(pending),
        "cause": pending.cause,
        "since": pending.since,
        "now": [(target.name, target.replicas) for target in binding.spec.clusters],
        "then": [(target.name, target.replicas) for target in pending.clusters],
    }


def rules_of(binding: Binding) -> list[tuple[str, str]]:
    placement = binding.spec.placement
    rules: list[tuple[str, str]] = []
    if placement is None:
        return rules
    rules += [
        ("Spread", f"{one.min_groups} to {one.max_groups} by {one.spread_by_field or one.spread_by_label}")
        for one in placement.spread_constraints
    ]
    asked = affinity_text(binding)
    if asked:
        rules.append(("Clusters", asked))
    if placement.cluster_affinities:
        rules.append(("Groups", ", ".join(term.affinity_name for term in placement.cluster_affinities)))
    previous = binding.status.previous_placement
    if previous is not None:
        rules.append(("Before the failover", ", ".join(f"{one.name} {one.replicas}" for one in previous.clusters)))
    return [*rules, *(("Failed in", entry.cluster_name) for entry in binding.spec.active_eviction_history)]


def actions_of(context: PageContext) -> Mapping[str, Action]:
    namespace = "" if context.segments[0] == CLUSTER_WIDE else context.segments[0]
    resource = "resourcebindings" if namespace else "clusterresourcebindings"
    return {
        "rebalance": Action("create", "apps.karmada.io", "workloadrebalancers"),
        "patch": Action("patch", "work.karmada.io", resource, namespace=namespace),
    }


@page(
    "workloads/{namespace}/{kind}/{name}",
    "workload.html",
    "workloads",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("workload:*",),
        "buttons": ("workload:*",),
        "forms": ("workload:*",),
        "note": ("workload:*",),
        "delivery": ("workload:*",),
        "history": ("workload:*", "events"),
        "rules": ("workload:*", "budgets"),
        "decisions": ("workload:*", "events"),
        "why": ("workload:*",),
        "timeline": ("workload:*", "events"),
    },
    rows={"move-rows": ("move_row", "moves", ("workload:*",))},
    actions=actions_of,
)
def workload(context: PageContext) -> View:
    facts = workload_of(context)
    binding = context.model.bindings[facts.key]
    explanation, is_remembered = explanation_of(context, binding)
    why = why_matrix(explanation, is_remembered=is_remembered)
    decisions = decisions_of(context, facts)
    chosen = decision_at(context, decisions)
    placed = [(one.at, one.placement) for one in decisions if one.placement]
    moves = context.model.moves_in(facts.key) if sees(context.visibility.moves, facts.namespace) else []
    current = {name: cell.target for name, cell in facts.cells.items() if cell.target}
    return {
        "workload": facts,
        "why": why,
        "help": help_for(facts, why),
        "unmet": unmet_affinity(binding),
        "stages": stages_of(current, moves, pending_placement(facts, why), placed) if current and facts.counted else [],
        "steps": steps_of(facts, binding, context.now),
        "deliveries": deliveries_of(facts, binding),
        "runs": {name: cell.runs() for name, cell in facts.cells.items()},
        "lost": [
            name for name in facts.cells if (one := context.model.clusters.get(name)) is not None and not one.is_ready
        ],
        "rules": rules_of(binding),
        "budgets": budgets_of(context, facts),
        "moves": move_rows(moves[:40], context, wide=False),
        "decisions": decision_rows(decisions, moves, chosen),
        "past": chosen if chosen is not None and chosen is not decisions[-1] else None,
        "timeline": timeline_of(context, facts, binding),
        "approval": approval_of(binding),
        "blocked_in": [entry.cluster_name for entry in binding.spec.active_eviction_history],
        "kept_in": [task.from_cluster for task in binding.spec.graceful_eviction_tasks if task.suppress_deletion],
        "command": f"trimtab explain {facts.kind.lower()}/{facts.name}"
        + (f" -n {facts.namespace}" if facts.namespace else ""),
    }


def binding_of(context: PageContext) -> Binding:
    facts = workload_of(context)
    return context.model.bindings[facts.key]


async def patch_binding(client: Client, binding: Binding, spec: Mapping[str, Any]) -> None:
    """Change the spec, if the binding was not written meanwhile."""
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    patch = {"metadata": {"resourceVersion": binding.metadata.resource_version}, "spec": dict(spec)}
    await client.patch(resource_of(kind), binding.namespace, binding.name, patch, manager=FIELD_MANAGER)


def spec_field(binding: Binding, field: str) -> Raw:
    """One field of the binding's spec in its wire form."""
    return {field: to_wire(binding)["spec"].get(field)}


@action("workloads/{namespace}/{kind}/{name}/unblock")
async def unblock(context: PageContext, client: Client, form: Form) -> str:
    """Allow the workload again in a cluster where it failed."""
    binding, cluster = binding_of(context), value_of(form, "cluster")
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    raw = await client.get(resource_of(kind), binding.namespace, binding.name)
    current = cast("Binding", kind.decode(raw))
    entries = current.spec.active_eviction_history
    kept = tuple(entry for entry in entries if entry.cluster_name != cluster)
    if len(kept) == len(entries):
        raise ActionError(f"the workload is not blocked in {cluster}")
    await patch_binding(client, current, spec_field(state.with_history(current, kept), "activeEvictionHistory"))
    return workload_path("/".join(context.segments))


@action("workloads/{namespace}/{kind}/{name}/approve")
async def approve(context: PageContext, client: Client, form: Form) -> str:
    """Release exactly the move that the page has shown."""
    binding = binding_of(context)
    pending = binding.status.pending_approval
    if pending is None or text_of(pending) != value_of(form, "move"):
        raise ActionError("the decision has changed since the page was made: look at the new move first")
    await approve_move(client, binding)
    return workload_path("/".join(context.segments))


@action("workloads/{namespace}/{kind}/{name}/purge")
async def purge(context: PageContext, client: Client, form: Form) -> str:
    """Delete the old copy in a cluster that purge mode Never has kept."""
    binding, cluster = binding_of(context), value_of(form, "cluster")
    kind = kind_of(ResourceBinding if binding.namespace else ClusterResourceBinding)
    raw = await client.get(resource_of(kind), binding.namespace, binding.name)
    current = cast("Binding", kind.decode(raw))
    tasks = current.spec.graceful_eviction_tasks
    if not any(task.from_cluster == cluster and task.suppress_deletion for task in tasks):
        raise ActionError(f"there is no old copy in {cluster}")
    ended = tuple(task.but(suppress_deletion=False) if task.from_cluster == cluster else task for task in tasks)
    await patch_binding(client, current, spec_field(state.finish_tasks(current, ended), "gracefulEvictionTasks"))
    return workload_path("/".join(context.segments))


def plan_path(workload: WorkloadFacts) -> str:
    return path_to("rebalance", "plan") + f"?workload={workload.key}"
