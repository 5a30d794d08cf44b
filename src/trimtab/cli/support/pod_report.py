"""The report of `trimtab explain pod/NAME`: owner, priority, budgets, and whether an eviction is allowed now."""

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar, cast

from trimtab.api.duration import format_timedelta
from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Object, Raw
from trimtab.cli.support.output import format_structured
from trimtab.client.client import Client, resource_of
from trimtab.decide.pods.budgets.pod_budgets import GuardingBudget, PodBudget, budget_snapshot, guards_pod
from trimtab.errors import ApiError, NotFound
from trimtab.rescheduling.eviction_client import PODS, detailed_refusal_message, evict, eviction_body
from trimtab.tables import format_table

T = TypeVar("T", bound=Object)
HEADINGS = ("KIND", "BUDGET", "NEEDS", "HEALTHY", "ALLOWS", "RATE", "CLOSED")


async def explain_pod(client: Client, namespace: str, name: str, now: datetime, output: str = "table") -> str:
    """The report as text, or as data with `json` and `yaml`."""
    raw = await client.get(PODS, namespace, name)
    pod = cast("Pod", kind_of(Pod).decode(raw))
    budgets: list[PodBudget] = [
        *await _list_objects(client, PodDisruptionBudget, namespace),
        *await _list_objects(client, DisruptionBudget, namespace),
    ]
    rows = [budget_row(budget, now) for budget in budgets if guards_pod(budget, pod)]
    if output == "name":
        return f"pod/{pod.name}"
    if output in ("json", "yaml"):
        fields = [heading.lower() for heading in HEADINGS]
        report = {
            "namespace": pod.namespace,
            "pod": pod.name,
            "state": list(report_lines(pod)),
            "budgets": [dict(zip(fields, row, strict=True)) for row in rows],
            "eviction": await eviction_text(client, raw),
        }
        return format_structured(report, output)
    found = [*report_lines(pod), format_table(HEADINGS, rows) if rows else "no budget covers it"]
    return "\n".join([*found, await eviction_text(client, raw)])


async def _list_objects(client: Client, type_: type[T], namespace: str) -> list[T]:
    kind = kind_of(type_)
    try:
        return [cast("T", kind.decode(one)) for one in (await client.list(resource_of(kind), namespace)).items]
    except NotFound:
        return []  # DisruptionBudget is not installed in this cluster


def report_lines(pod: Pod) -> Iterator[str]:
    state = "terminating" if pod.metadata.deletion_timestamp is not None else pod.status.phase or "Pending"
    state += ", ready" if pod.is_ready else ", not ready"
    yield f"pod {pod.namespace}/{pod.name} on {pod.spec.node_name or 'no node'}: {state}"
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status != "True":
            yield f"pending: {condition.message}"
        if condition.type == "DisruptionTarget" and condition.status == "True":
            yield f"terminating because: {condition.message} ({condition.reason})"
    owner = pod.controller
    yield f"owner: {owner.kind} {owner.name}" if owner is not None else "owner: none; nothing recreates it"
    yield f"priority: {pod.spec.priority or 0} {pod.spec.priority_class_name}".rstrip()


def budget_row(budget: PodBudget, now: datetime) -> tuple[str, ...]:
    status = budget_snapshot(GuardingBudget(budget), now)
    bounded = budget.spec.min_available is not None or budget.spec.max_unavailable is not None
    rate = status.rate
    used = (
        f"{rate.count_in_window(now)} of {rate.disruptions} in {format_timedelta(rate.period)}"
        if rate is not None
        else "-"
    )
    if rate is not None and rate.remaining(now) == 0:
        used += f", next at {rate.next_allowed_at(now):%H:%M:%S}"
    return (
        status.kind,
        budget.name,
        str(status.desired_healthy) if bounded else "-",
        str(status.current_healthy),
        str(status.disruptions_allowed) if bounded else "any",
        used,
        status.closed_reason or "-",
    )


async def eviction_text(client: Client, pod: Raw) -> str:
    """The response of the API server to a dry-run eviction."""
    try:
        await evict(client, pod, eviction_body(pod, dry_run=True))
    except ApiError as fault:
        wait = f" (retry in {fault.retry_after} s)" if fault.retry_after else ""
        return f"eviction allowed now: no: {await detailed_refusal_message(client, pod, fault)}{wait}"
    return "eviction allowed now: yes"
