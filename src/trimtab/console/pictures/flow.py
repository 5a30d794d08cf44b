"""Flows between clusters: from the clusters that are left to those that gain, and moves on one time axis."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from trimtab.api.wording import plural
from trimtab.console.facts import MoveFacts
from trimtab.console.pictures.fleet_map import MapFlow
from trimtab.console.pictures.svg import num, picture, ribbon
from trimtab.console.text import MINUS, cause_class, cause_text, clock_time, esc, shortened

__all__ = ["draw_flows", "draw_span", "draw_time_axis"]
AXIS_WIDTH = 224


class Node:
    """A cluster on one side: its place, and how much of it is used by the flows so far."""

    def __init__(self, y: float, height: float) -> None:
        self.y = y
        self.height = height
        self.used = 0.0


def stack_nodes(
    totals: Mapping[str, int], order: Sequence[str], unit: float, gap: float
) -> tuple[dict[str, Node], float]:
    y = 26.0
    nodes: dict[str, Node] = {}
    for name in sorted(totals, key=lambda one: (order.index(one) if one in order else len(order), one)):
        nodes[name] = Node(y, max(10.0, totals[name] * unit))
        y += nodes[name].height + gap
    return nodes, y


def totals_of(flows: Sequence[MapFlow], side: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for flow in flows:
        name = getattr(flow, side)
        totals[name] = totals.get(name, 0) + flow.replicas
    return totals


def draw_flows(
    flows: Sequence[MapFlow], order: Sequence[str] = (), lost: Sequence[str] = (), width: float = 660, side: float = 118
) -> str:
    """Ribbons as thick as their replicas; what leaves on the left is what arrives on the right."""
    flows = [flow for flow in flows if flow.replicas > 0]
    total = sum(flow.replicas for flow in flows) or 1
    unit, gap = max(0.4, min(6.4, 300 / total)), 9.0
    left, left_end = stack_nodes(totals_of(flows, "source"), order, unit, gap)
    right, right_end = stack_nodes(totals_of(flows, "target"), order, unit, gap)
    height = max(left_end, right_end)
    for nodes, end in ((left, left_end), (right, right_end)):
        for node in nodes.values():
            node.y += (height - end) / 2
    x1, x2 = side, width - side
    out = [
        f'<text x="{num(x1)}" y="12" class="t-s mu e">leaving</text><text x="{num(x2)}" y="12" class="t-s mu">gaining</text>'
    ]
    for flow in sorted(flows, key=lambda one: (left[one.source].y, right[one.target].y, one.cause)):
        source, target, thickness = left[flow.source], right[flow.target], flow.replicas * unit
        path = ribbon(x1 + 8, source.y + source.used, x2 - 8, target.y + target.used, thickness)
        source.used += thickness
        target.used += thickness
        title = f"{flow.source} to {flow.target}: {plural(flow.replicas, 'replica')}, {cause_text(flow.cause)}"
        out.append(
            f'<path class="rb {cause_class(flow.cause)}" data-c="{esc(flow.source)} {esc(flow.target)}" d="{path}">'
            f"<title>{esc(title)}</title></path>"
        )
    out += [
        node_text(name, node, x1, totals_of(flows, "source")[name], "l", name in lost) for name, node in left.items()
    ]
    out += [
        node_text(name, node, x2, totals_of(flows, "target")[name], "r", name in lost) for name, node in right.items()
    ]
    return picture(width, height, "Replicas between clusters; the table says the same", out)


def node_text(name: str, node: Node, x: float, total: int, side: str, is_lost: bool) -> str:
    is_left = side == "l"
    anchor, text_x = (" e", x - 8) if is_left else ("", x + 8)
    sign = MINUS if is_left else "+"
    return (
        f'<g data-cl="{esc(name)}"><rect class="node{" gone" if is_lost else ""}" x="{num(x if is_left else x - 8)}" y="{num(node.y)}" '
        f'width="8" height="{num(node.height)}" rx="2"/>'
        f'<text x="{num(text_x)}" y="{num(node.y + node.height / 2 + 4)}" class="t-s m{anchor}">'
        f'<tspan class="b">{esc(shortened(name, 12))}</tspan><tspan class="mu"> {sign}{total}</tspan></text></g>'
    )


def time_range(moves: Sequence[MoveFacts], now: datetime) -> tuple[datetime, datetime]:
    """The period that the time axis of a log shows."""
    starts = [move.started for move in moves if move.started is not None]
    first = min(starts, default=now - timedelta(minutes=2))
    length = max(timedelta(minutes=1), now - first)
    return now - length * 1.02, now + length * 0.1


def draw_time_axis(start: datetime, end: datetime) -> str:
    length = end - start
    marks = [start + length * part for part in (0.12, 0.5, 0.88)]
    out = [
        f'<line class="axis" x1="{num(position(mark, start, end))}" x2="{num(position(mark, start, end))}" y1="11" y2="15"/>'
        f'<text x="{num(position(mark, start, end))}" y="9" class="t-xs mu mid">{clock_time(mark)}</text>'
        for mark in marks
    ]
    return (
        f'<svg width="{AXIS_WIDTH}" height="16" viewBox="0 0 {AXIS_WIDTH} 16" aria-hidden="true">{"".join(out)}</svg>'
    )


def position(at: datetime, start: datetime, end: datetime) -> float:
    return max(0.0, min(float(AXIS_WIDTH), (at - start) / (end - start) * AXIS_WIDTH))


def draw_span(move: MoveFacts, start: datetime, end: datetime, now: datetime) -> str:
    """The time of one move as a bar on the axis of the log."""
    first = position(move.started or now, start, end)
    last = position(move.finished or now, start, end)
    kind = cause_class(move.cause)
    out = [f'<line class="grid" x1="0" x2="{AXIS_WIDTH}" y1="9" y2="9"/>']
    if not move.outcome:
        out.append(f'<line class="g-until" x1="{num(last)}" x2="{AXIS_WIDTH}" y1="9" y2="9"/>')
    done = " done" if move.outcome else ""
    out.append(
        f'<rect class="g-bar {kind}{done}" x="{num(first)}" y="5" width="{num(max(3.0, last - first))}" height="8" rx="2"/>'
    )
    if not move.outcome:
        out.append(f'<path class="k-{kind}" d="M{num(last)} 3l6 6l-6 6z"/>')
    return (
        f'<svg width="{AXIS_WIDTH}" height="18" viewBox="0 0 {AXIS_WIDTH} 18" aria-hidden="true">{"".join(out)}</svg>'
    )
