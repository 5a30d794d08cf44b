"""Moves: what moves now, from where to where and why; what waits; and the log on one time axis."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import islice, takewhile
from typing import Any

from trimtab.api.wording import plural
from trimtab.console.facts import MoveFacts, is_recent
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.fleet import flows_between, flows_of
from trimtab.console.permissions import sees
from trimtab.console.pictures.fleet_map import MapFlow
from trimtab.console.pictures.flow import time_range
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import HOUR, cause_text, median, one_decimal, parse_time
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import STUCK, WAITING, WorkloadFacts

MAX_ROWS = 80
"""A row has 25 elements, and a page should not have more than 3,000."""
MAX_WAITING = 12
OUTCOMES = (
    ("", "all"),
    ("going", "in progress"),
    ("Done", "done"),
    ("Reverted", "reverted"),
    ("Stalled", "stalled"),
    ("Cancelled", "cancelled"),
    ("Superseded", "superseded"),
)


def is_selected(move: MoveFacts, context: PageContext) -> bool:
    outcomes, causes, spaces = context.values("outcome"), context.values("cause"), context.values("ns")
    source, target = context.query.get("from", ""), context.query.get("to", "")
    since, until = parse_time(context.query.get("since", "")), parse_time(context.query.get("until", ""))
    words = context.query.get("q", "").lower().split()
    text = (
        f"{move.key} {move.source} {' '.join(name for name, _ in move.targets)} {move.cause}".lower() if words else ""
    )
    return (
        (not outcomes or (move.outcome or "going") in outcomes)
        and (not causes or move.cause in causes)
        and (not spaces or move.namespace in spaces)
        and (not source or move.source == source)
        and (not target or any(name == target for name, _ in move.targets))
        and (since is None or (move.started is not None and move.started >= since))
        and (until is None or (move.started is not None and move.started <= until))
        and all(word in text for word in words)
    )


def progress_of(move: MoveFacts, context: PageContext) -> tuple[int, int] | None:
    """How many of the replicas that a move in progress starts are ready; None when it is over or starts none."""
    wanted = sum(count for _, count in move.targets)
    workload = context.model.workloads.get(move.key)
    if move.outcome or not wanted or workload is None:
        return None
    cells = [workload.cells.get(name) for name, _ in move.targets]
    starting = sum(cell.starting + cell.lost for cell in cells if cell is not None)
    return max(0, wanted - starting), wanted


def move_rows(moves: Sequence[MoveFacts], context: PageContext, *, wide: bool = True) -> list[dict[str, Any]]:
    """Rows of the log; the bars of finished moves do not change, so their axis ends at the next half minute."""
    now = context.now
    rounded = now.replace(second=now.second // 30 * 30, microsecond=0) + timedelta(seconds=30)
    start, end = time_range(moves, rounded)
    return [
        {
            "id": f"m-{move.id}",
            "version": (move.version_of_model, wide, rounded if wide else None, start if wide else None, progress),
            "move": move,
            "progress": progress,
            "_wide": wide,
            "_axis": (start, end, now),
        }
        for move, progress in ((move, progress_of(move, context)) for move in moves)
    ]


def by_cause(context: PageContext) -> list[dict[str, Any]]:
    """The moves of the last hour."""
    groups: dict[str, list[MoveFacts]] = {}
    for move in islice(context.model.latest_moves(context.visibility.moves), 2000):
        if not is_recent(move, context.now, HOUR):
            break
        groups.setdefault(move.cause, []).append(move)
    rows = []
    for cause, moves in sorted(groups.items()):
        middle = median([move.seconds for move in moves if move.seconds is not None and move.outcome == "Done"])
        rows.append(
            {
                "cause": cause,
                "moves": len(moves),
                "replicas": sum(move.replicas for move in moves),
                "done": sum(move.outcome == "Done" for move in moves),
                "median": f"{one_decimal(middle)} s" if middle is not None else "",
            }
        )
    return rows


def waiting_of(context: PageContext) -> list[WorkloadFacts]:
    keys = sorted(context.model.by_state.get(STUCK, set()) | context.model.by_state.get(WAITING, set()))
    found = (context.model.workloads[key] for key in keys)
    return [one for one in found if sees(context.visibility.workloads, one.namespace)]


def hour_flows(context: PageContext) -> list[MapFlow]:
    """The replicas that moved between clusters in the last hour."""
    latest = islice(context.model.latest_moves(context.visibility.moves), 2000)
    return flows_between(list(takewhile(lambda move: is_recent(move, context.now, HOUR), latest)))


def waiting_text(waiting: Sequence[WorkloadFacts]) -> str:
    stuck = sum(one.state == STUCK for one in waiting)
    parts = []
    if len(waiting) > stuck:
        count = len(waiting) - stuck
        parts.append(f"{plural(count, 'workload')} {'waits' if count == 1 else 'wait'}")
    if stuck:
        parts.append(f"{plural(stuck, 'workload') if not parts else stuck} {'is' if stuck == 1 else 'are'} stuck")
    return f" {', '.join(parts)}." if parts else ""


def sentence(context: PageContext, waiting: Sequence[WorkloadFacts]) -> str:
    going = [context.model.moves[name] for name in context.model.going]
    going = [move for move in going if sees(context.visibility.moves, move.namespace)]
    wait = waiting_text(waiting)
    if not going:
        return f"Nothing moves now.{wait}"
    causes = sorted({move.cause for move in going})
    parts = ", ".join(f"{sum(move.cause == cause for move in going)} by {cause_text(cause)}" for cause in causes)
    return f"{plural(len(going), 'move')} with {plural(sum(move.replicas for move in going), 'replica')} in progress: {parts}.{wait}"


@page(
    "moves",
    "moves.html",
    "moves",
    live={
        "pulse": PULSE_TOPICS,
        "lead": ("moves", "workloads"),
        "now": ("moves",),
        "hour": ("moves",),
        "waiting": ("workloads",),
        "chips": ("moves",),
        "axis": ("moves",),
    },
    rows={"move-rows": ("move_row", "rows", ("moves", "workloads"))},
)
def moves(context: PageContext) -> View:
    outcomes = context.model.sums(context.visibility.moves).outcomes
    latest = context.model.latest_moves(context.visibility.moves)
    if context.query:
        found = [move for move in latest if is_selected(move, context)]
        total = len(found)
    else:
        found, total = list(islice(latest, MAX_ROWS)), sum(outcomes.values())
    waiting, flows = waiting_of(context), flows_of(context)
    clusters = (
        sorted(context.model.clusters.values(), key=lambda one: (one.region, one.name))
        if context.visibility.clusters
        else []
    )
    rows = move_rows(found[:MAX_ROWS], context)
    return {
        "sentence": sentence(context, waiting),
        "flows": flows,
        "hour_flows": hour_flows(context) if not flows else [],
        "order": [one.name for one in clusters],
        "lost": [one.name for one in clusters if not one.is_ready],
        "causes": by_cause(context),
        "waiting": [(one, short_reason(one, context)) for one in waiting[:MAX_WAITING]],
        "waiting_count": len(waiting),
        "rows": rows,
        "axis": rows[0]["_axis"][:2] if rows else None,
        "total": total,
        "outcomes": [
            (value, text, outcomes["" if value == "going" else value] if value else sum(outcomes.values()))
            for value, text in OUTCOMES
        ],
    }
