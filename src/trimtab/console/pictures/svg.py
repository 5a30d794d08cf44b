"""Small helpers of all pictures: numbers without noise, dots that stand for replicas."""

from collections.abc import Iterable, Sequence

from trimtab.console.text import esc

Runs = Sequence[tuple[str, int]]
"""Kinds of replicas and how many there are of each, in the order in which their dots are drawn."""
DOT = 8
KINDS = ("ready", "held", "blocked", "start", "lost")


def num(value: float) -> str:
    """A coordinate with one decimal at most."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def dot_count(runs: Runs, scale: int = 1) -> int:
    return sum(-(-count // scale) for _, count in runs if count > 0)


def dots(runs: Runs, x: float, y: float, per_row: int, scale: int = 1) -> str:
    """One rectangle with a pattern per run and row, so that a thousand replicas cost a few elements."""
    out: list[str] = []
    position = 0
    for kind, count in runs:
        left = -(-count // scale) if count > 0 else 0
        while left > 0:
            row, column = divmod(position, per_row)
            width = min(left, per_row - column)
            out.append(
                f'<rect x="{column * DOT}" y="{row * DOT}" width="{width * DOT}" height="{DOT}" fill="url(#p-{kind})"/>'
            )
            position += width
            left -= width
    return f'<g transform="translate({num(x)} {num(y)})">{"".join(out)}</g>'


def picture(
    width: float, height: float, label: str, content: Iterable[str], *, role: str = "img", css: str = "pic"
) -> str:
    return (
        f'<svg class="{css}" viewBox="0 0 {num(width)} {num(height)}" role="{role}" aria-label="{esc(label)}">'
        f"{''.join(content)}</svg>"
    )


def ribbon(x1: float, y1: float, x2: float, y2: float, thickness: float) -> str:
    """The outline of a flow from one column to another, with a horizontal start and end."""
    middle = num((x1 + x2) / 2)
    return (
        f"M{num(x1)} {num(y1)}C{middle} {num(y1)} {middle} {num(y2)} {num(x2)} {num(y2)}v{num(thickness)}"
        f"C{middle} {num(y2 + thickness)} {middle} {num(y1 + thickness)} {num(x1)} {num(y1 + thickness)}z"
    )
