"""How a workload came to where it is: one column per decision, with ribbons for the replicas that moved."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from trimtab.api.wording import plural, verb
from trimtab.console.facts import Facts, MoveFacts
from trimtab.console.pictures.svg import Runs, dots, num, picture, ribbon
from trimtab.console.text import cause_class, cause_text, clock_time, esc, shortened

__all__ = ["draw_history"]
MAX_STAGES = 5
MAX_NARROW_STAGES = 2
"""More do not fit beside their names; the list of decisions has all."""
NODE_WIDTH = 12.0
KEEP, PENDING = "keep", "wish"
SAME_DECISION = timedelta(seconds=3)
"""A decision and the moves that it begins are recorded within this time."""


class Stage(Facts):
    """A placement that one decision led to."""

    title: str
    at: datetime | None
    placement: dict[str, int]
    links: tuple[tuple[str, str, int, str], ...] = ()
    """From the previous stage: cluster, cluster, replicas, cause or `keep`."""
    is_pending: bool = False


def links_between(
    before: Mapping[str, int], after: Mapping[str, int], cause: str
) -> tuple[tuple[str, str, int, str], ...]:
    """What stays, and a transport of what leaves to where it arrives; as much goes in as comes out."""
    links = [(name, name, min(count, after.get(name, 0)), KEEP) for name, count in before.items() if after.get(name, 0)]
    gains = {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
    for name in sorted(before):
        left = before[name] - after.get(name, 0)
        for target in sorted(gains):
            moved = min(left, gains[target])
            if moved > 0:
                links.append((name, target, moved, cause))
                left -= moved
                gains[target] -= moved
    return tuple(link for link in links if link[2] > 0)


Decision = tuple[datetime, Mapping[str, int]]
"""When something was decided, and the placement."""


def stages_of(
    current: Mapping[str, int],
    moves: Sequence[MoveFacts],
    pending: Mapping[str, int] | None = None,
    decisions: Sequence[Decision] = (),
) -> list[Stage]:
    """The decisions about a workload, the oldest first: as they were recorded, else found by taking back the moves."""
    stages = stages_of_decisions(current, moves, decisions) or stages_of_moves(current, moves, decisions)
    if pending is not None and dict(pending) != dict(stages[-1].placement):
        links = links_between(stages[-1].placement, pending, PENDING)
        stages.append(Stage(title="decided, waits", at=None, placement=dict(pending), links=links, is_pending=True))
    return stages


def stages_of_decisions(
    current: Mapping[str, int], moves: Sequence[MoveFacts], decisions: Sequence[Decision]
) -> list[Stage]:
    """One stage per recorded placement; empty when the records do not lead to the current placement."""
    distinct = [one for number, one in enumerate(decisions) if not number or one[1] != decisions[number - 1][1]]
    if not distinct or dict(distinct[-1][1]) != dict(current):
        return []
    distinct = distinct[:1] + list(results_of_moves(distinct[1:], moves))
    stages: list[Stage] = []
    for at, placement in distinct[-MAX_STAGES:]:
        before = stages[-1].placement if stages else {}
        cause = cause_at(at, moves)
        title = title_of(placement, before if stages else None, cause)
        links = links_between(before, placement, cause) if stages else ()
        stages.append(Stage(title=title, at=at, placement=dict(placement), links=links))
    return stages


def results_of_moves(decisions: Sequence[Decision], moves: Sequence[MoveFacts]) -> Iterator[Decision]:
    """The decisions but the first step of a move that is decided in two: a failover takes the lost replicas away, then
    divides all again."""
    for number, one in enumerate(decisions):
        following = decisions[number + 1 : number + 2]
        if not following or not begin_one_move(one[0], following[0][0], moves):
            yield one


def begin_one_move(first: datetime, second: datetime, moves: Sequence[MoveFacts]) -> bool:
    """Whether two decisions belong to the same move: they follow each other at once, for the same cause."""
    cause = cause_at(first, moves)
    return second - first <= SAME_DECISION and cause != "" and cause == cause_at(second, moves)


def title_of(placement: Mapping[str, int], before: Mapping[str, int] | None, cause: str) -> str:
    """What a decision did, in a word; `before` is None for the first one."""
    if cause:
        return cause_text(cause)
    if not placement:
        return "no cluster fitted"
    if not before:
        return "placed"
    grown = sum(placement.values()) - sum(before.values())
    return "scaled up" if grown > 0 else "scaled down" if grown < 0 else "moved"


def moves_at(at: datetime, moves: Sequence[MoveFacts]) -> list[MoveFacts]:
    """The moves that a decision began."""
    return [move for move in moves if move.started is not None and abs(move.started - at) <= SAME_DECISION]


def cause_at(at: datetime, moves: Sequence[MoveFacts]) -> str:
    """The cause of the moves that a decision began; empty when it began none."""
    near = moves_at(at, moves)
    return near[0].cause if near else ""


def stages_of_moves(
    current: Mapping[str, int], moves: Sequence[MoveFacts], decisions: Sequence[Decision]
) -> list[Stage]:
    """The placements before the moves, found by taking them back one decision at a time."""
    groups: dict[tuple[str, str], list[MoveFacts]] = {}
    for move in moves:  # the latest first
        if move.outcome not in ("Reverted", "Cancelled"):
            groups.setdefault((move.generation or clock_time(move.started), move.cause), []).append(move)
    placement = {name: count for name, count in current.items() if count > 0}
    stages: list[Stage] = []
    for (_, cause), group in list(groups.items())[: MAX_STAGES - 1]:
        earlier = dict(placement)
        for move in group:
            earlier[move.source] = earlier.get(move.source, 0) + sum(count for _, count in move.targets)
            for target, count in move.targets:
                earlier[target] = earlier.get(target, 0) - count
        earlier = {name: count for name, count in earlier.items() if count > 0}
        stages.append(
            Stage(
                title=cause_text(cause),
                at=group[0].started,
                placement=placement,
                links=links_between(earlier, placement, cause),
            )
        )
        placement = earlier
    first = next((at for at, known in decisions if dict(known) == placement), None)
    stages.append(Stage(title="placed", at=first, placement=placement))
    stages.reverse()
    return stages


class _Box:
    def __init__(self, y: float, height: float) -> None:
        self.y, self.height, self.used_in, self.used_out = y, height, 0.0, 0.0


def draw_history(
    stages: Sequence[Stage], runs: Mapping[str, Runs], lost: Sequence[str] = (), width: float = 860
) -> str:
    """`runs` are the replicas of now by cluster; they are drawn as dots at the last stage that is not pending."""
    is_narrow = width < 500
    if is_narrow:
        stages = stages[-MAX_NARROW_STAGES:]
    most = max((sum(stage.placement.values()) for stage in stages), default=1) or 1
    unit = min(9.0, max(1.5, 190 / most))
    left = (78.0 if is_narrow else 96.0) if len(stages) > 1 else 12.0
    right = 96.0 if is_narrow else 210.0
    step = (width - left - right) / max(1, len(stages) - 1)
    columns = [boxes_of(stage.placement, unit) for stage in stages]
    height = max((box.y + box.height for boxes in columns for box in boxes.values()), default=60.0) + 14
    out: list[str] = []
    for number, stage in enumerate(stages):
        out.append(stage_head(stage, left + number * step, number, len(stages), width if is_narrow else 0))
    for number in range(1, len(stages)):
        out += stage_links(
            stages[number], columns[number - 1], columns[number], left + (number - 1) * step, left + number * step, unit
        )
    last = max(number for number, stage in enumerate(stages) if not stage.is_pending)
    for number, stage in enumerate(stages):
        x = left + number * step
        for name, box in columns[number].items():
            style = " wish" if stage.is_pending else " gone" if name in lost else ""
            out.append(
                f'<rect class="node{style}" x="{num(x)}" y="{num(box.y)}" width="{num(NODE_WIDTH)}" height="{num(box.height)}" rx="2"/>'
            )
            out.append(node_label(name, stage.placement[name], x, box, at_left=number == 0 and len(stages) > 1))
            if number == last == len(stages) - 1 and name in runs:
                per_row = 8 if is_narrow else 14
                offset = 12 + 7.2 * (len(name[:12]) + 4)
                out.append(
                    dots(
                        runs[name],
                        x + NODE_WIDTH + (0 if is_narrow else offset),
                        box.y + box.height / 2 + (6 if is_narrow else -4),
                        per_row,
                        max(1, -(-stage.placement[name] // 28)),
                    )
                )
    return picture(
        width, height, "How the replicas have moved, decision by decision; the log of moves says the same", out
    )


def boxes_of(placement: Mapping[str, int], unit: float) -> dict[str, _Box]:
    y, boxes = 48.0, {}
    for name in sorted(placement):
        boxes[name] = _Box(y, max(6.0, placement[name] * unit))
        y += boxes[name].height + 18
    return boxes


def stage_head(stage: Stage, x: float, number: int, count: int, narrow_width: float) -> str:
    anchor, at = ("", x) if number in (0, count - 1) else (" mid", x + NODE_WIDTH / 2)
    if narrow_width and number == count - 1 and count > 1:
        anchor, at = " e", narrow_width - 2
    style = " f-wait" if stage.is_pending else ""
    return (
        f'<text x="{num(at)}" y="14" class="t-s b{anchor}{style}">{esc(stage.title)}</text>'
        f'<text x="{num(at)}" y="29" class="t-xs mu{anchor}">{esc(clock_time(stage.at) if stage.at else "")}</text>'
    )


def stage_links(
    stage: Stage, before: Mapping[str, _Box], after: Mapping[str, _Box], x1: float, x2: float, unit: float
) -> list[str]:
    out = []
    for source, target, count, cause in sorted(stage.links):
        if source not in before or target not in after:
            continue
        thickness, start, end = count * unit, before[source], after[target]
        path = ribbon(x1 + NODE_WIDTH, start.y + start.used_out, x2, end.y + end.used_in, thickness)
        start.used_out += thickness
        end.used_in += thickness
        style = cause if cause in (KEEP, PENDING) else cause_class(cause)
        title = (
            f"{source} to {target}: {plural(count, 'replica')}"
            if source != target
            else f"{source}: {plural(count, 'replica')} {verb(count, 'stays', 'stay')}"
        )
        out.append(f'<path class="rb {style}" d="{path}"><title>{esc(title)}</title></path>')
    return out


def node_label(name: str, count: int, x: float, box: _Box, *, at_left: bool) -> str:
    y = box.y + box.height / 2 + 4
    text = f'<tspan class="b">{esc(shortened(name, 12))}</tspan> {count}'
    if at_left:
        return f'<text x="{num(x - 8)}" y="{num(y)}" class="t-s m e">{text}</text>'
    return f'<text x="{num(x + NODE_WIDTH + 8)}" y="{num(y)}" class="t-s m halo">{text}</text>'
