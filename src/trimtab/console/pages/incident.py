"""Incident: what happened to a cluster, or in a period, as a report that can be printed."""

from datetime import datetime, timedelta
from typing import Any

from trimtab.api.wording import plural, verb
from trimtab.console.cluster_facts import DARK, ClusterFacts
from trimtab.console.facts import MoveFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.pages.fleet import enumerate_names, flows_between, last_known_replicas
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS
from trimtab.console.text import cause_text, clock_time, one_decimal, parse_time, reason_text, span
from trimtab.console.why import short_reason
from trimtab.console.workload_facts import NOWHERE, STUCK

DEFAULT_PERIOD = timedelta(hours=1)
MAX_MOVES = 300
MAX_TITLES = 6
"""Workloads that an entry of the timeline names."""
PAUSE = timedelta(seconds=10)
"""Moves with less time between them are one entry: evictions are spread over time."""
TAINT_EVENT = "TaintClusterSucceed"
"""The reason of events that repeat the taints of a cluster, which the report lists with their times."""
FAILURES = ("ClusterFailover", "ApplicationFailover", "Eviction")


def cluster_names(context: PageContext) -> list[str]:
    """The clusters of the report: as the address says, else all that do not answer; none for the whole fleet."""
    if "cluster" in context.query:
        return context.values("cluster")
    if not context.visibility.clusters:
        return []
    return sorted(one.name for one in context.model.clusters.values() if one.state == DARK)


def moves_of(context: PageContext, names: list[str]) -> list[MoveFacts]:
    """The moves of the period, the oldest first; with clusters only those that leave one of them."""
    since = parse_time(context.query.get("since", "")) or context.now - DEFAULT_PERIOD
    until = parse_time(context.query.get("until", "")) or context.now
    spaces = context.values("ns")
    found = [
        move
        for move in context.model.latest_moves(context.visibility.moves)
        if move.started is not None
        and since <= move.started <= until
        and (not names or move.source in names)
        and (not spaces or move.namespace in spaces)
    ]
    return list(reversed(found[:MAX_MOVES]))


def is_part_of(at: datetime, cluster: ClusterFacts) -> bool:
    """Whether something at this time may belong to the incident: a cluster that fails has normal events of before."""
    return cluster.is_ready or cluster.since is None or at >= cluster.since


def entries_of(context: PageContext, cluster: ClusterFacts) -> list[dict[str, Any]]:
    """What happened to one cluster."""
    name = cluster.name
    entries = [
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
    return entries + [
        {"at": taint.time_added, "state": "wait", "title": f"{name}: taint {taint.key}:{taint.effect}", "text": ""}
        for taint in context.model.typed_clusters[name].spec.taints
        if taint.time_added is not None
    ]


def waves_of(moves: list[MoveFacts]) -> list[list[MoveFacts]]:
    """The moves of one cause that begin shortly after each other; `moves` are the oldest first."""
    waves: list[list[MoveFacts]] = []
    latest: dict[str, list[MoveFacts]] = {}
    for move in moves:
        wave = latest.get(move.cause)
        if wave is None or move.started is None or wave[-1].started is None or move.started - wave[-1].started > PAUSE:
            wave = latest[move.cause] = []
            waves.append(wave)
        wave.append(move)
    return waves


def timeline_of(context: PageContext, clusters: list[ClusterFacts], moves: list[MoveFacts]) -> list[dict[str, Any]]:
    entries = [entry for cluster in clusters for entry in entries_of(context, cluster)]
    for group in waves_of(moves):
        replicas, titles = sum(move.replicas for move in group), sorted({move.title for move in group})
        began, ended = group[0].started, group[-1].started
        seconds = (ended - began).total_seconds() if began is not None and ended is not None else 0
        within = f" within {span(seconds)}" if seconds >= 1 else ""
        more = f" and {len(titles) - MAX_TITLES} more" if len(titles) > MAX_TITLES else ""
        entries.append(
            {
                "at": began,
                "state": "move",
                "title": f"{plural(len(titles), 'workload')} with {plural(replicas, 'replica')} {'leaves' if len(titles) == 1 else 'leave'}{within}: {cause_text(group[0].cause)}",
                "text": ", ".join(titles[:MAX_TITLES]) + more,
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


def open_points(context: PageContext, clusters: list[ClusterFacts], moves: list[MoveFacts]) -> list[str]:
    """What is not over yet; without clusters also every workload that has no place."""
    points = []
    for cluster in clusters:
        if not cluster.is_ready:
            last = last_known_replicas(cluster, context)
            rest = f"; its last known {plural(last, 'replica')} may still run" if last else ""
            points.append(f"{cluster.name} does not answer{rest}.")
    if not clusters:
        spaces = context.values("ns")
        keys = sorted({key for state in (NOWHERE, STUCK) for key in context.model.by_state.get(state, ())})
        broken = [context.model.workloads[key] for key in keys]
        points += [
            f"{one.title} {'runs nowhere' if one.state == NOWHERE else 'is stuck'}: {short_reason(one, context)}"
            for one in broken
            if sees(context.visibility.workloads, one.namespace) and (not spaces or one.namespace in spaces)
        ][:20]
    points += [
        f"{move.title}: {plural(move.replicas, 'replica')} from {move.source} {'is' if move.replicas == 1 else 'are'} still moving."
        for move in moves
        if not move.outcome
    ][:20]
    for move in moves:
        workload = context.model.workloads.get(move.key)
        if workload is not None and not clusters and workload.state in (NOWHERE, STUCK):
            continue
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
    names = cluster_names(context)
    known = context.model.clusters if context.visibility.clusters else {}
    clusters = [known[name] for name in names if name in known]
    dark = [one for one in clusters if not one.is_ready]
    moves = moves_of(context, names)
    took = [
        move.seconds
        for move in moves
        if move.seconds is not None and move.outcome == "Done" and (not clusters or move.cause in FAILURES)
    ]
    failed_over = [move for move in moves if move.cause in FAILURES]
    since = min((one.since for one in dark if one.since is not None), default=None)
    begun = [
        move.started for move in failed_over if move.started is not None and (since is None or move.started >= since)
    ]
    first = min(begun, default=None)
    delay = (first - since).total_seconds() if first is not None and since is not None else None
    done = sum(bool(move.outcome) for move in moves)
    if dark:
        who = enumerate_names([one.name for one in dark])
        title = f"{who} {verb(len(dark), 'does', 'do')} not answer since {clock_time(since)} UTC"
    elif names:
        title = f"{enumerate_names(names)}: moves of the period"
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
        "names": names,
        "cluster": names[0] if len(names) == 1 else "",
        "clusters": sorted(context.model.clusters) if context.visibility.clusters else [],
        "since": context.query.get("since", ""),
        "until": context.query.get("until", ""),
        "delay": delay,
        "slowest": max(took, default=None),
        "replicas": sum(move.replicas for move in moves),
        "failures": len(failed_over),
        "going": len(moves) - done,
        "timeline": timeline_of(context, clusters, moves),
        "flows": flows_between(moves),
        "unreplaced": sum(move.replicas - sum(count for _, count in move.targets) for move in moves),
        "moves": moves,
        "open": open_points(context, clusters, moves),
    }
    return {**view, "markdown": markdown_of(view)}
