"""The map of the fleet: clusters by region with a dot per replica, and lines for the moves in progress.

Up to 24 clusters are cards, up to 150 are tiles, more are cells; lines of a large fleet run between regions.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.api.wording import plural, verb
from trimtab.console.cluster_facts import CORDONED, DARK, DRAINING, JOINING, ClusterFacts
from trimtab.console.facts import Facts
from trimtab.console.pictures.svg import Runs, dot_count, dots, num
from trimtab.console.text import MINUS, cause_class, cause_text, cluster_path, esc, iso, one_decimal, shortened

__all__ = ["draw_fleet_map"]
WIDTH = 1232.0
CARDS, TILES = 24, 150
TOP = 24.0
STATE_CLASS = {DARK: "dark", DRAINING: "drain", CORDONED: "closed", JOINING: "new"}


class MapCluster(Facts):
    """One cluster of the map."""

    facts: ClusterFacts
    runs: Runs = ()
    workloads: int = 0
    arriving: int = 0
    leaving: int = 0


class MapFlow(Facts):
    """Replicas that move from one cluster to another now."""

    source: str
    target: str
    cause: str
    replicas: int


class MapRegion(Facts):
    name: str
    clusters: tuple[MapCluster, ...]


class Box(NamedTuple):
    """Where a cluster is drawn."""

    x: float
    y: float
    column: int
    row: int


class Layout(NamedTuple):
    """The sizes of the map; they depend on the number of clusters."""

    columns: int
    column_width: float
    gap: float
    row_height: float
    row_gap: float


def layout_of(regions: Sequence[MapRegion]) -> Layout:
    """At most six columns; the wider the gaps, the easier lines are followed."""
    columns = max(1, min(6, len(regions)))
    gap = 61.3 if columns <= 4 else 46.0 if columns == 5 else 36.0
    width = (
        min(262.0, (WIDTH - (columns - 1) * gap) / columns) if columns >= 4 else (WIDTH - (columns - 1) * gap) / columns
    )
    return Layout(columns, width, (WIDTH - columns * width) / max(1, columns - 1), 92.0, 24.0)


def draw_fleet_map(regions: Sequence[MapRegion], flows: Sequence[MapFlow]) -> str:
    count = sum(len(region.clusters) for region in regions)
    if count > TILES:
        return draw_cells(regions)
    if count > CARDS:
        return draw_tiles(regions)
    return draw_cards(regions, flows)


def stack_regions(regions: Sequence[MapRegion], layout: Layout) -> list[list[MapRegion]]:
    """The regions of each column, the shortest column first."""
    stacks: list[list[MapRegion]] = [[] for _ in range(layout.columns)]
    for number, region in enumerate(regions):
        if number < layout.columns:
            stacks[number].append(region)
        else:
            min(stacks, key=lambda stack: sum(len(one.clusters) for one in stack) + len(stack)).append(region)
    return stacks


def draw_cards(regions: Sequence[MapRegion], flows: Sequence[MapFlow]) -> str:
    layout = layout_of(regions)
    boxes: dict[str, Box] = {}
    heads: list[str] = []
    height = 0.0
    for column, stack in enumerate(stack_regions(regions, layout)):
        x, y, row = column * (layout.column_width + layout.gap), 0.0, 0
        for region in stack:
            heads.append(region_head(region, x, y, layout.column_width))
            y += TOP
            for cluster in region.clusters:
                boxes[cluster.facts.name] = Box(x, y, column, row)
                y += layout.row_height + layout.row_gap
                row += 1
            height = max(height, y - layout.row_gap)
            y += 6
    lanes: dict[int, int] = {}
    shown = [flow for flow in flows if flow.source in boxes and flow.target in boxes]
    lines = draw_flows(shown, boxes, layout, lanes)
    if lanes and max(lanes) == max(box.row for box in boxes.values()):
        height += layout.row_gap  # a line runs below the last row
    cards = [card(cluster, boxes[cluster.facts.name], layout) for region in regions for cluster in region.clusters]
    content = f"{''.join(heads)}<g>{''.join(lines)}</g>{''.join(cards)}"
    label = "Clusters by region, and the moves between them; the table below says the same"
    return (
        f'<svg class="pic map" viewBox="-1 0 {num(WIDTH + 2)} {num(height + 2)}" role="group" aria-label="{label}">'
        f"{content}</svg>"
    )


def region_head(region: MapRegion, x: float, y: float, width: float) -> str:
    used = sum(cluster.facts.cpu_used for cluster in region.clusters)
    total = sum(cluster.facts.cpu for cluster in region.clusters)
    load = f"{used / total:.0%} of {one_decimal(total)} cpu" if total else ""
    return (
        f'<text x="{num(x)}" y="{num(y + 13)}" class="t-s b">{esc(region.name or "no region")}</text>'
        f'<text x="{num(x + width)}" y="{num(y + 13)}" class="t-s mu e">{esc(load)}</text>'
    )


class Line(NamedTuple):
    """A flow, and the sides of the cards at which it starts and ends."""

    flow: MapFlow
    source_side: str
    target_side: str


def line_of(flow: MapFlow, boxes: Mapping[str, Box], layout: Layout) -> Line:
    source, target = boxes[flow.source].column, boxes[flow.target].column
    if source < target:
        return Line(flow, "r", "l")
    if source > target:
        return Line(flow, "l", "r")
    side = "r" if source < layout.columns - 1 else "l"
    return Line(flow, side, side)


def anchors_of(
    lines: Sequence[Line], boxes: Mapping[str, Box], layout: Layout
) -> dict[tuple[int, int], tuple[float, float]]:
    """Where each line starts (0) and ends (1): spread along the edge of the card, sorted by where the other end is."""
    slots: dict[tuple[str, str], list[tuple[float, int, int]]] = {}
    for number, line in enumerate(lines):
        source, target = line.flow.source, line.flow.target
        slots.setdefault((source, line.source_side), []).append((boxes[target].y, number, 0))
        slots.setdefault((target, line.target_side), []).append((boxes[source].y, number, 1))
    anchors: dict[tuple[int, int], tuple[float, float]] = {}
    for (name, side), ends in slots.items():
        box = boxes[name]
        for position, (_, number, end) in enumerate(sorted(ends)):
            y = box.y + 14 + (layout.row_height - 28) * (position + 0.5) / len(ends)
            anchors[number, end] = (box.x + (layout.column_width if side == "r" else 0.0), y)
    return anchors


def draw_flows(flows: Sequence[MapFlow], boxes: Mapping[str, Box], layout: Layout, lanes: dict[int, int]) -> list[str]:
    """`lanes` gets the number of the last line in the gap below each row."""
    lines = [line_of(flow, boxes, layout) for flow in sorted(flows, key=lambda f: (f.source, f.target, f.cause))]
    anchors = anchors_of(lines, boxes, layout)
    out: list[str] = []
    for number, line in enumerate(lines):
        start, end = anchors[number, 0], anchors[number, 1]
        sign = 1 if line.target_side == "r" else -1
        path = line_path(line, start, (end[0] + sign * 7, end[1]), boxes, layout, lanes)
        flow, width = line.flow, min(1.4 + 0.8 * line.flow.replicas, 6.0)
        kind, both = cause_class(flow.cause), f"{esc(flow.source)} {esc(flow.target)}"
        title = f"{flow.source} to {flow.target}: {plural(flow.replicas, 'replica')}, {cause_text(flow.cause)}"
        tip = f"M{num(end[0] + sign)} {num(end[1])}l{sign * 8} {num(-(3 + width / 2))}v{num(6 + width)}z"
        out.append(
            f'<path class="flow {kind}" data-c="{both}" stroke-width="{num(width)}" d="{path}"><title>{esc(title)}</title>'
            f'</path><path class="tip {kind}" data-c="{both}" d="{tip}"/>'
        )
    return out


def line_path(
    line: Line,
    start: tuple[float, float],
    end: tuple[float, float],
    boxes: Mapping[str, Box],
    layout: Layout,
    lanes: dict[int, int],
) -> str:
    """A curve between neighbouring columns; over other columns it runs in the gap between two rows of cards."""
    (x1, y1), (x2, y2) = start, end
    source, target = boxes[line.flow.source], boxes[line.flow.target]
    outwards, inwards = (1 if line.source_side == "r" else -1), (1 if line.target_side == "r" else -1)
    if abs(source.column - target.column) <= 1:
        bend = layout.gap * (0.62 if line.source_side == line.target_side else 0.55)
        return f"M{num(x1)} {num(y1)}C{num(x1 + outwards * bend)} {num(y1)} {num(x2 + inwards * bend)} {num(y2)} {num(x2)} {num(y2)}"
    upper = source if source.row <= target.row else target
    lane = lanes[upper.row] = lanes.get(upper.row, -1) + 1
    y = upper.y + layout.row_height + 5 + (lane % 4) * 5
    half, turn = layout.gap * 0.5, layout.gap * 0.3
    g1, g2 = x1 + outwards * half, x2 + inwards * half
    return (
        f"M{num(x1)} {num(y1)}C{num(g1)} {num(y1)} {num(g1 - outwards * turn * 0.6)} {num(y)} {num(g1 + outwards * turn)} {num(y)}"
        f"H{num(g2 + inwards * turn)}C{num(g2 - inwards * turn * 0.6)} {num(y)} {num(g2)} {num(y2)} {num(x2)} {num(y2)}"
    )


def state_note(cluster: MapCluster) -> tuple[str, str]:
    """The class and the text at the top right of a card."""
    facts, counts = cluster.facts, dict(cluster.runs)
    if facts.state == DARK:
        return "f-bad", "does not answer"
    if facts.state == JOINING:
        return "mu", "joining"
    if facts.state == DRAINING:
        left = counts.get("held", 0) + counts.get("blocked", 0) + counts.get("ready", 0)
        return "f-wait", f"draining, {left} left" if left else "drained"
    if facts.state == CORDONED:
        return "f-wait", "cordoned"
    return "mu", f"{counts.get('ready', 0) + counts.get('held', 0)} ready"


def card(cluster: MapCluster, box: Box, layout: Layout) -> str:
    facts, width = cluster.facts, layout.column_width
    kind, note = state_note(cluster)
    per_row = int((width - 28) // 8)
    scale = max(1, -(-dot_count(cluster.runs) // (per_row * 3)))
    bar = 104.0 if facts.state == DARK else min(132.0, width * 0.5)
    moving = " ".join(
        text
        for text in (
            f"+{cluster.arriving}" if cluster.arriving else "",
            f"{MINUS}{cluster.leaving}" if cluster.leaving else "",
        )
        if text
    )
    sub = " · ".join(
        part
        for part in (facts.provider, ", ".join(facts.zones[:2]), f"{facts.ready_nodes}/{facts.nodes} nodes")
        if part
    )
    load = f"{'last seen ' if facts.state == DARK else ''}{one_decimal(facts.cpu_used)} / {one_decimal(facts.cpu)} cpu"
    label = f"{facts.name}: {note}, {load}, {plural(cluster.arriving, 'replica')} {verb(cluster.arriving, 'arrives', 'arrive')}, {cluster.leaving} {verb(cluster.leaving, 'leaves', 'leave')}"
    since = f"<title>{esc(facts.message)} since {iso(facts.since)}</title>" if facts.state == DARK else ""
    return (
        f'<a class="card {STATE_CLASS.get(facts.state, "ok")}" href="{esc(cluster_path(facts.name))}" data-cl="{esc(facts.name)}" '
        f'aria-label="{esc(label)}"><g transform="translate({num(box.x)} {num(box.y)})">'
        f'<rect class="bg" width="{num(width)}" height="{num(layout.row_height)}" rx="7"/>{since}'
        f'<text x="14" y="21" class="t-m m b">{esc(shortened(facts.name, 28))}</text>'
        f'<text x="{num(width - 14)}" y="21" class="t-s e {kind}">{esc(note)}</text>'
        f'<text x="14" y="37" class="t-xs mu">{esc(shortened(sub, 44))}</text>'
        f'<text x="{num(width - 14)}" y="37" class="t-s m e f-move b">{moving}</text>'
        f'<rect class="track" x="14" y="46" width="{num(bar)}" height="5" rx="2.5"/>'
        f'<rect class="fill" x="14" y="46" width="{num(bar * min(1.0, facts.load))}" height="5" rx="2.5"/>'
        f'<text x="{num(width - 14)}" y="52" class="t-xs mu e">{esc(load)}</text>'
        f"{dots(cluster.runs, 13, 63, per_row, scale)}{scale_note(scale, width)}</g></a>"
    )


def scale_note(scale: int, width: float) -> str:
    return f'<text x="{num(width - 14)}" y="88" class="t-xs mu e">a dot is {scale}</text>' if scale > 1 else ""


TILE_WIDTH, TILE_HEIGHT, TILE_GAP = 112.0, 44.0, 12.0


def draw_tiles(regions: Sequence[MapRegion]) -> str:
    """Name, load and counts of each cluster, region by region."""
    per_row = int((WIDTH + TILE_GAP) // (TILE_WIDTH + TILE_GAP))
    out: list[str] = []
    y = 0.0
    for region in regions:
        out.append(region_head(region, 0, y, WIDTH))
        y += TOP - 4
        for number, cluster in enumerate(region.clusters):
            row, column = divmod(number, per_row)
            out.append(tile(cluster, column * (TILE_WIDTH + TILE_GAP), y + row * (TILE_HEIGHT + 8)))
        y += -(-len(region.clusters) // per_row) * (TILE_HEIGHT + 8) + 6
    label = "Clusters by region with their load; the table below says the same"
    return f'<svg class="pic map" viewBox="-1 0 {num(WIDTH + 2)} {num(y)}" role="group" aria-label="{label}">{"".join(out)}</svg>'


def tile(cluster: MapCluster, x: float, y: float) -> str:
    facts, counts = cluster.facts, dict(cluster.runs)
    total = sum(counts.values())
    note = state_note(cluster)[1]
    moving = f"+{cluster.arriving}" if cluster.arriving else f"{MINUS}{cluster.leaving}" if cluster.leaving else ""
    return (
        f'<a class="card {STATE_CLASS.get(facts.state, "ok")}" href="{esc(cluster_path(facts.name))}" data-cl="{esc(facts.name)}" '
        f'aria-label="{esc(f"{facts.name}: {note}, ")}{plural(total, "replica")}"><g transform="translate({num(x)} {num(y)})">'
        f'<rect class="bg" width="{num(TILE_WIDTH)}" height="{num(TILE_HEIGHT)}" rx="6"/>'
        f'<text x="8" y="16" class="t-s m b">{esc(shortened(facts.name, 14))}</text>'
        f'<text x="{num(TILE_WIDTH - 8)}" y="35" class="t-xs mu e">{total}</text>'
        + (f'<text x="{num(TILE_WIDTH - 8)}" y="16" class="t-xs m e f-move b">{moving}</text>' if moving else "")
        + f'<rect class="track" x="8" y="29" width="72" height="5" rx="2.5"/>'
        f'<rect class="fill" x="8" y="29" width="{num(72 * min(1.0, facts.load))}" height="5" rx="2.5"/></g></a>'
    )


CELL = 16.0


def draw_cells(regions: Sequence[MapRegion]) -> str:
    """A square per cluster, shaded by load."""
    per_row = int(WIDTH // CELL)
    out: list[str] = []
    y = 0.0
    for region in regions:
        out.append(region_head(region, 0, y, WIDTH))
        y += TOP - 4
        for number, cluster in enumerate(region.clusters):
            row, column = divmod(number, per_row)
            facts = cluster.facts
            title = f"{facts.name}: {state_note(cluster)[1]}, {facts.load:.0%} of the cpu requested"
            out.append(
                f'<a class="cell {STATE_CLASS.get(facts.state, "ok")} l{min(4, int(facts.load * 5))}" '
                f'href="{esc(cluster_path(facts.name))}" aria-label="{esc(title)}">'
                f'<rect x="{num(column * CELL)}" y="{num(y + row * CELL)}" width="13" height="13" rx="2">'
                f"<title>{esc(title)}</title></rect></a>"
            )
        y += -(-len(region.clusters) // per_row) * CELL + 8
    label = "Clusters by region, shaded by load; the table below says the same"
    return f'<svg class="pic map" viewBox="-1 0 {num(WIDTH + 2)} {num(y)}" role="group" aria-label="{label}">{"".join(out)}</svg>'
