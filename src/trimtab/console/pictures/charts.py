"""Small charts: bars, meters, rows of dots, scores around zero, load before and after."""

from collections.abc import Sequence

from trimtab.console.facts import Facts
from trimtab.console.pictures.svg import DOT, Runs, dot_count, dots, num, picture
from trimtab.console.text import esc, shortened

__all__ = ["draw_bar", "draw_dots", "draw_load_change", "draw_meter", "draw_score", "draw_storm", "draw_trend"]


def draw_bar(share: float, width: float = 96, height: float = 6, kind: str = "used") -> str:
    """A share of one, as a filled track."""
    filled = width * max(0.0, min(1.0, share))
    return (
        f'<svg class="meter" width="{num(width)}" height="{num(height)}" viewBox="0 0 {num(width)} {num(height)}" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="{num(width)}" height="{num(height)}" rx="3"/>'
        f'<rect class="{esc(kind)}" width="{num(filled)}" height="{num(height)}" rx="3"/></svg>'
    )


def draw_dots(runs: Runs, per_row: int = 16, most: int = 64) -> str:
    """The replicas of a cell as dots; a dot stands for several when there are many."""
    scale = max(1, -(-dot_count(runs) // most))
    count = dot_count(runs, scale)
    rows, width = max(1, -(-count // per_row)), min(per_row, max(count, 1)) * DOT
    return f'<svg width="{width}" height="{rows * DOT}" viewBox="0 0 {width} {rows * DOT}" aria-hidden="true">{dots(runs, 0, 0, per_row, scale)}</svg>'


def draw_meter(used: int, limit: int, width: float = 120) -> str:
    """What is used of a rate: a box per disruption, one track when there are many."""
    if limit > 24 or limit <= 0:
        return draw_bar(used / limit if limit > 0 else 0.0, width, 8)
    box = (width - (limit - 1) * 3) / limit
    parts = [
        f'<rect class="{"used" if number < used else "track"}" x="{num(number * (box + 3))}" width="{num(box)}" height="8" rx="2"/>'
        for number in range(limit)
    ]
    return f'<svg class="meter" width="{num(width)}" height="8" viewBox="0 0 {num(width)} 8" aria-hidden="true">{"".join(parts)}</svg>'


def draw_score(value: float, limit: float = 100, width: float = 44) -> str:
    """A score as a bar to the left or to the right of zero."""
    middle = width / 2
    length = max(-limit, min(limit, value)) / limit * middle
    return (
        f'<svg width="{num(width)}" height="10" viewBox="0 0 {num(width)} 10" aria-hidden="true">'
        f'<line class="zero" x1="{num(middle)}" x2="{num(middle)}" y1="0" y2="10"/>'
        f'<rect class="{"bar-pos" if value >= 0 else "bar-neg"}" x="{num(min(middle, middle + length))}" y="2.5" '
        f'width="{num(abs(length))}" height="5"/></svg>'
    )


def draw_trend(loads: Sequence[float | None], width: float = 120, height: float = 18) -> str:
    """The load of the last hour as a line; nothing before there are two values."""
    points = [
        (number / (len(loads) - 1) * width, height - 2 - (height - 4) * max(0.0, min(1.0, load)))
        for number, load in enumerate(loads)
        if load is not None and len(loads) > 1
    ]
    if len(points) < 2:
        return ""
    known = [load for load in loads if load is not None]
    label = f"Load of the last hour: {min(known):.0%} to {max(known):.0%}, now {known[-1]:.0%}"
    path = "M" + "L".join(f"{num(x)} {num(y)}" for x, y in points)
    return (
        f'<svg class="trend" width="{num(width)}" height="{num(height)}" viewBox="0 0 {num(width)} {num(height)}" role="img" '
        f'aria-label="{esc(label)}"><title>{esc(label)}</title><path class="grid" d="M0 {num(height - 2)}H{num(width)}"/>'
        f'<path class="trendline" d="{path}"/></svg>'
    )


def draw_storm(dark: int, total: int, marks: Sequence[tuple[int, str]], width: float = 1198) -> str:
    """How many clusters are not ready, with marks from which on the storm brake acts."""
    scale = width / max(1, total)
    track = f'<rect class="track" y="22" width="{num(width)}" height="8" rx="3"/>'
    filled = f'<rect class="over" y="22" width="{num(min(dark, total) * scale)}" height="8" rx="3"/>'
    out = ['<g class="meter">', track, filled]
    for number, (at, text) in enumerate(marks):
        x = at * scale
        side, shift = ("e", -5) if number + 1 < len(marks) or x > width / 2 else ("", 5)
        out.append(
            f'<line class="need" x1="{num(x)}" x2="{num(x)}" y1="17" y2="35"/>'
            f'<text x="{num(x + shift)}" y="12" class="t-xs mu {side}">{esc(text)}</text>'
        )
    label = f"{dark} of {total} clusters are not ready" + "".join(f"; the brake {text}" for _, text in marks)
    return picture(width, 38, label, [*out, "</g>"])


class LoadChange(Facts):
    """The requested share of a cluster's CPU, now and then."""

    name: str
    region: str
    now: float
    then: float
    lost: bool = False


def draw_load_change(rows: Sequence[LoadChange], width: float = 560) -> str:
    """Two dots per cluster: the load now, and the load after the change."""
    left, right = 92.0, width - 104
    top, bottom = 16.0, 22.0 + 22 * len(rows) + 6 * len({row.region for row in rows})
    out: list[str] = []
    for mark in (0, 25, 50, 75, 100):
        x = left + (right - left) * mark / 100
        out.append(
            f'<line class="grid" x1="{num(x)}" x2="{num(x)}" y1="{num(top)}" y2="{num(bottom)}"/>'
            f'<text x="{num(x)}" y="10" class="t-xs mu mid">{mark} %</text>'
        )
    y, region = 22.0, rows[0].region if rows else ""
    for row in rows:
        if row.region != region:
            y, region = y + 6, row.region
        out.append(load_row(row, y, left, right, width))
        y += 22
    return picture(width, y + 6, "CPU requested per cluster, now and then", out)


def load_row(row: LoadChange, y: float, left: float, right: float, width: float) -> str:
    name = f'<text x="{num(left - 10)}" y="{num(y + 11)}" class="t-s m e{" mu" if row.lost else ""}">{esc(shortened(row.name, 13))}</text>'
    if row.lost:
        return (
            f'<g class="dumb">{name}<path class="p-x" d="M{num(left - 3)} {num(y + 4)}l6 6m0 -6l-6 6"/>'
            f'<text x="{num(left + 12)}" y="{num(y + 11)}" class="t-xs f-bad">lost</text></g>'
        )
    now, then = (left + (right - left) * max(0.0, min(1.0, share)) for share in (row.now, row.then))
    change = (row.then - row.now) * 100
    text = f"{row.now * 100:.0f} → {row.then * 100:.0f} %" if abs(change) >= 0.5 else f"{row.now * 100:.0f} %"
    return (
        f'<g class="dumb">{name}<line class="ln" x1="{num(now)}" x2="{num(then)}" y1="{num(y + 7)}" y2="{num(y + 7)}"/>'
        f'<circle class="now" cx="{num(now)}" cy="{num(y + 7)}" r="3.6"/><circle class="then" cx="{num(then)}" cy="{num(y + 7)}" r="4"/>'
        f'<text x="{num(width - 2)}" y="{num(y + 11)}" class="t-s m e {"b" if abs(change) >= 8 else "mu"}">{esc(text)}</text></g>'
    )
