"""Plans as text for people: the verdict first, then moves, refusals, budgets and the load of clusters."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.api.wording import plural, verb
from trimtab.dryrun.plan_result import (
    EVICTION_STOPPED,
    LATER,
    NEVER,
    REFUSED,
    STEPS,
    UNCHANGED,
    WHEN_APPROVED,
    BudgetCost,
    ClusterLoad,
    Forecast,
    Plan,
    PlannedMove,
    PlannedWorkload,
    format_shares,
)
from trimtab.tables import format_table

MAX_ROWS = 60


def report_lines(plan: Plan, *, wide: bool = False) -> Iterator[str]:
    """The sections that have something to say."""
    yield plan.verdict.message
    yield from plan.objects
    if plan.workloads:
        yield ""
        rows = [workload_row(row) for row in plan.workloads]
        yield from cut_rows(format_table(("WORKLOAD", "ACTION", "CAUSE", "NOW", "THEN", "START", "NOTE"), rows), wide)
    if plan.moves:
        yield ""
        rows = [(str(number), *move_row(move)) for number, move in enumerate(plan.moves, 1)]
        yield from cut_rows(format_table(("MOVE", "WORKLOAD", "REPLICAS", "FROM", "TO", "MODE", "START"), rows), wide)
    if plan.budgets:
        yield ""
        headings = ("BUDGET", "MOVES", "START NOW", "REPLICAS", "ALLOWED NOW", "NEXT", "LOST", "MISSING")
        yield format_table(headings, map(budget_row, plan.budgets))
    loads = [load for load in plan.load if wide or is_changed(load)]
    if loads:
        yield ""
        yield format_table(("CLUSTER", "REPLICAS", "CPU", "MEMORY", "PODS"), map(load_row, loads))
        if plan.verdict.spread_before is not None and plan.verdict.spread_after is not None:
            yield f"Spread of CPU: {plan.verdict.spread_before} to {plan.verdict.spread_after} percentage points."
    if plan.warnings or plan.evacuation_starts_after is not None:
        yield ""
    if plan.evacuation_starts_after is not None:
        yield eviction_line(plan, plan.evacuation_starts_after)
    yield from (f"Warning: {warning}" for warning in plan.warnings)
    if plan.forecast is not None:
        yield ""
        yield from forecast_lines(plan.forecast) if plan.moves else ("Forecast: nothing moves.",)
    yield ""
    others = {0: "There are no other workloads.", 1: "1 other workload does not change."}
    yield others.get(plan.unchanged, f"{plan.unchanged} other workloads do not change.")


def cut_rows(table: str, wide: bool) -> Iterator[str]:
    lines = table.splitlines()
    yield from lines if wide else lines[: MAX_ROWS + 1]
    if not wide and len(lines) > MAX_ROWS + 1:
        yield f"... and {len(lines) - MAX_ROWS - 1} more; -o wide shows all."


def workload_row(row: PlannedWorkload) -> tuple[str, ...]:
    return (
        row.workload,
        row.action,
        row.cause or "-",
        format_shares(row.before),
        format_shares(row.after),
        start_text(row),
        note_text(row) or "-",
    )


def start_text(row: PlannedWorkload | PlannedMove) -> str:
    if isinstance(row, PlannedWorkload) and row.action in (REFUSED, UNCHANGED):
        return "-"
    if row.start == NEVER:
        return "not possible"
    if row.start == WHEN_APPROVED:
        return "when approved"
    if row.start == STEPS:
        return "in steps"
    if row.start == LATER:
        return format_time(row.starts_at) if row.starts_at is not None else "after others"
    return "now"


def note_text(row: PlannedWorkload) -> str:
    parts = [row.note, row.refusal.message if row.refusal is not None and row.refusal.message != row.note else ""]
    if row.is_pending:
        parts.append("happens without this change as well")
    return "; ".join(part for part in parts if part)


def move_row(move: PlannedMove) -> tuple[str, ...]:
    return (
        move.workload,
        str(move.replicas or "-"),
        move.source,
        format_shares(move.to),
        move.mode or "-",
        start_text(move),
    )


def eviction_line(plan: Plan, seconds: float) -> str:
    """When workloads leave clusters that fail; so many clusters may fail that none does."""
    stopped = [item for item in plan.refusals if item.refusal is not None and item.refusal.code == EVICTION_STOPPED]
    if stopped and not plan.moves:
        return "No workload is evicted while so many clusters have failed (DisruptionPolicy, storm)."
    return f"Evictions begin {seconds:.0f} s after the failure."


def budget_row(cost: BudgetCost) -> tuple[str, ...]:
    return (
        cost.budget,
        str(cost.moves),
        str(cost.started),
        str(cost.replicas),
        "-" if cost.allowed_now is None else str(cost.allowed_now),
        format_time(cost.next_at) if cost.next_at is not None else "-",
        str(cost.lost or "-"),
        str(cost.missing or "-"),
    )


def is_changed(load: ClusterLoad) -> bool:
    return load.is_lost or load.replicas_before != load.replicas_after


def load_row(load: ClusterLoad) -> tuple[str, ...]:
    return (
        f"{load.cluster} (lost)" if load.is_lost else load.cluster,
        f"{load.replicas_before} -> {load.replicas_after}",
        part_text(load.cpu_before, load.cpu_after),
        part_text(load.memory_before, load.memory_after),
        part_text(load.pods_before, load.pods_after),
    )


def part_text(before: float | None, after: float | None) -> str:
    texts = ["-" if part is None else f"{100 * part:.1f} %" for part in (before, after)]
    return " -> ".join(texts) if texts[0] != texts[1] else texts[0]


def forecast_lines(forecast: Forecast) -> Iterator[str]:
    if forecast.finish_seconds is not None:
        yield f"Forecast: the last move is done after {format_seconds(forecast.finish_seconds)}."
    elif forecast.waits_until is not None:
        yield (
            f"Forecast: not finished; the next move may begin on {format_time(forecast.waits_until)}, "
            "which is after the horizon (--horizon)."
        )
    else:
        yield f"Forecast: not finished within {format_seconds(forecast.seconds_simulated)}."
    surge = forecast.peak_surge
    most = f"At most {plural(surge, 'replica')} {verb(surge, 'runs', 'run')} twice at one time."
    yield most if surge else "No replica runs twice."
    for name in forecast.differs:
        place = format_shares(forecast.placements.get(name, ()))
        yield f"Forecast: {name} " + (
            f"ends in {place}, not as planned." if forecast.finished else f"is still in {place}."
        )


def format_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (rest, "s")) if n) or "0 s"


def format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%SZ}"
