"""Plain-text tables as kubectl prints them."""

from collections.abc import Iterable, Sequence
from typing import Any


def format_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose columns are as wide as their widest cell and three spaces apart."""
    cells = [tuple(headings), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)
