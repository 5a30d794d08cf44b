"""Incident: what happened to a cluster, or in a period, as a report that can be printed."""

from datetime import datetime, timedelta
from typing import Any

from trimtab.api.wording import plural
from trimtab.console.cluster_facts import DARK, ClusterFacts
from trimtab.console.facts import MoveFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.fleet import flows_between, last_known_replicas
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, clock_time, one_decimal, parse_time, reason_text

DEFAULT_PERIOD = timedelta(hours=1)
MAX_MOVES = 300
TAINT_EVENT = "TaintClusterSucceed"
"""The reason of events that repeat the taints of a cluster, which the report lists with their times."""
FAILURES = ("ClusterFailover", "ApplicationFailover", "Eviction")


def cluster_name(context: PageContext) -> str:
    """The cluster of the report: as the address says, else one that does not answer."""
    if "cluster" in context.query:
        return context.query["cluster"]
    dark = sorted(one.name for one in context.model.clusters.values() if one.state == DARK)
    return dark[0] if dark else ""


def moves_of(context: PageContext, name: str) -> list[MoveFacts]:
    """The moves of the period, the oldest first; with a cluster only those that leave it."""
    since = parse_time(context.query.get("since", "")) or context.now - DEFAULT_PERIOD
    until = parse_time(context.query.get("until", "")) or context.now
    spaces = context.values("ns")
    found = [
        move
        for move in context.model.latest_moves(context.visibility.moves)
        if move.started is not None
        and since <= move.started <= until
        and (not name or move.source == name)
        and (not spaces or move.namespace in spaces)
    ]
    return list(reversed(found[:MAX_MOVES]))


def is_part_of(at: datetime, cluster: ClusterFacts) -> bool:
    """Whether something at this time may belong to the incident: a cluster that fails has normal events of before."""
    return cluster.is_ready or cluster.since is None or at >= cluster.since


def timeline_of(context: PageContext, name: str, moves: list[MoveFacts]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    cluster = context.model.clusters.get(name) if context.visibility.clusters else None
    if cluster is not None:
        entries += [
            {
                "at": event.at,
                "state": "wait" if event.warning else "ok",
                "title": f"{name}: {event.reason}",
                "text": event.message,
            }
            for event in context.model.events.get(("Cluster", "", name), {}).values()
            if event.reason != TAINT_EVENT and (event.warning or is_part_of(event.at, cluster))
        ]
        if cluster.since is not None:
            title = f"{name} does not answer" if not cluster.is_ready else f"{name} is ready"
            entries.append(
                {
                    "at": cluster.since,
                    "state": "dark" if not cluster.is_ready else "done",
                    "title": title,
                    "text": cluster.message,
                }
            )
        entries += [
            {"at": taint.time_added, "state": "wait", "title": f"taint {taint.key}:{taint.effect}", "text": ""}
            for taint in context.model.typed_clusters[name].spec.taints
            if taint.time_added is not None
        ]
    starts: dict[Any, list[MoveFacts]] = {}
    for move in moves:
        starts.setdefault((move.started.replace(microsecond=0) if move.started else None, move.cause), []).append(move)
    for (at, cause), group in starts.items():
        replicas = sum(move.replicas for move in group)
        titles = sorted({move.title for move in group})
        entries.append(
            {
                "at": at,
                "state": "move",
                "title": f"{plural(len(titles), 'workload')} with {plural(replicas, 'replica')} {'leaves' if len(titles) == 1 else 'leave'}: {cause_text(cause)}",
                "text": ", ".join(titles[:6]),
            }
        )
    done = [move for move in moves if move.finished is not None]
    if done:
        last = max(done, key=lambda move: str(move.finished))
        entries.append(
            {
                "at": last.finished,
                "state": "done",
                "title": f"{len(done)} of {plural(len(moves), 'move')} ended",
                "text": "",
            }
        )
    since = parse_time(context.query.get("since", "")) or context.now - DEFAULT_PERIOD
    return sorted((entry for entry in entries if entry["at"] and entry["at"] >= since), key=lambda entry: entry["at"])


def open_points(context: PageContext, name: str, moves: list[MoveFacts]) -> list[str]:
    points = []
    cluster = context.model.clusters.get(name) if name else None
    if cluster is not None and not cluster.is_ready:
        last = last_known_replicas(cluster, context)
        rest = f"; its last known {plural(last, 'replica')} may still run" if last else ""
        points.append(f"{name} does not answer{rest}.")
    points += [
        f"{move.title}: {plural(move.replicas, 'replica')} from {move.source} {'is' if move.replicas == 1 else 'are'} still moving."
        for move in moves
        if not move.outcome
    ][:20]
    for move in moves:
        workload = context.model.workloads.get(move.key)
        if workload is not None and workload.why and sees(context.visibility.workloads, workload.namespace):
            points.append(f"{workload.title}: {reason_text(workload.why, context.now)}")
    return list(dict.fromkeys(points))


def markdown_of(view: dict[str, Any]) -> str:
    """The report as text, for a ticket."""
    lines = [f"# {view['title']}", "", view["sentence"], "", "## What happened", ""]
    lines += [
        f"- {clock_time(entry['at'])} {entry['title']}{': ' + entry['text'] if entry['text'] else ''}"
        for entry in view["timeline"]
    ]
    lines += [
        "",
        "## Workloads",
        "",
        "| workload | replicas | from | to | started | took | outcome |",
        "|---|---|---|---|---|---|---|",
    ]
    for move in view["moves"]:
        to = ", ".join(f"{name} {count}" for name, count in move.targets) or "none"
        took = f"{one_decimal(move.seconds)} s" if move.seconds is not None else "in progress"
        lines.append(
            f"| {move.title} | {move.replicas} | {move.source} | {to} | {clock_time(move.started)} | {took} | {move.outcome or 'in progress'} |"
        )
    lines += ["", "## Still open", ""] + ([f"- {point}" for point in view["open"]] or ["- nothing"])
    return "\n".join(lines)


@page(
    "incident",
    "incident.html",
    "fleet",
    live={"pulse": PULSE_TOPICS, "report": ("clusters", "workloads", "moves", "events")},
)
def incident(context: PageContext) -> View:
    name = cluster_name(context)
    cluster = context.model.clusters.get(name) if context.visibility.clusters else None
    moves = moves_of(context, name)
    took = [
        move.seconds
        for move in moves
        if move.seconds is not None and move.outcome == "Done" and (cluster is None or move.cause in FAILURES)
    ]
    failed_over = [move for move in moves if move.cause in FAILURES]
    first = min((move.started for move in failed_over if move.started is not None), default=None)
    delay = (
        (first - cluster.since).total_seconds()
        if first is not None and cluster is not None and cluster.since is not None and not cluster.is_ready
        else None
    )
    done = sum(bool(move.outcome) for move in moves)
    if cluster is not None and not cluster.is_ready:
        title = f"{name} does not answer since {clock_time(cluster.since)} UTC"
    elif name:
        title = f"{name}: moves of the period"
    else:
        title = "Moves of the last hour" if not context.query.get("since") else "Moves of the period"
    sentence = (
        f"{plural(len({move.key for move in moves}), 'workload')} with {plural(sum(move.replicas for move in moves), 'replica')} moved; {done} of {plural(len(moves), 'move')} ended."
        if moves
        else "Nothing moved in this period."
    )
    view: dict[str, Any] = {
        "title": title,
        "sentence": f"{sentence} Written {context.now:%Y-%m-%d %H:%M:%S} UTC.",
        "cluster": name,
        "clusters": sorted(context.model.clusters) if context.visibility.clusters else [],
        "since": context.query.get("since", ""),
        "until": context.query.get("until", ""),
        "delay": delay,
        "slowest": max(took, default=None),
        "replicas": sum(move.replicas for move in moves),
        "failures": len(failed_over),
        "going": len(moves) - done,
        "timeline": timeline_of(context, name, moves),
        "flows": flows_between(moves),
        "unreplaced": sum(move.replicas - sum(count for _, count in move.targets) for move in moves),
        "moves": moves,
        "open": open_points(context, name, moves),
    }
    return {**view, "markdown": markdown_of(view)}
