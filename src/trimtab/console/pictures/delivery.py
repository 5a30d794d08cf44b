"""The way of a workload from its template to its pods: template, policy, decision, a Work per cluster, replicas."""

from collections.abc import Sequence

from trimtab.console.facts import Facts
from trimtab.console.pictures.svg import dot_count, dots, num, picture
from trimtab.console.text import esc, shortened
from trimtab.console.workload_facts import Cell

__all__ = ["draw_delivery"]
BOX_WIDTH, BOX_HEIGHT, GAP = 176.0, 58.0, 40.0
ROW = 30.0
MAX_ROWS = 16
APPLIED, FAILED, PENDING = "applied", "failed", "pending"


class Delivery(Facts):
    """How far the workload is in one cluster."""

    cluster: str
    state: str
    """applied, failed, or pending: the cluster has not reported it yet."""
    message: str = ""
    health: str = ""
    cell: Cell = Cell()


class Step(Facts):
    """A box before the clusters: template, policy or decision."""

    title: str
    text: str
    note: str = ""
    is_missing: bool = False


def draw_delivery(steps: Sequence[Step], rows: Sequence[Delivery], width: float = 1198) -> str:
    """Boxes from left to right, then one line per cluster with the state of its Work and a dot per replica."""
    shown = rows[:MAX_ROWS]
    height = max(BOX_HEIGHT + 8, ROW * max(1, len(shown)) + 8)
    middle = height / 2
    out: list[str] = []
    for number, step in enumerate(steps):
        x = number * (BOX_WIDTH + GAP)
        if number:
            out.append(arrow(x - GAP, middle, x, middle, is_broken=step.is_missing))
        out.append(box(step, x, middle - BOX_HEIGHT / 2))
    start, end = len(steps) * (BOX_WIDTH + GAP) - GAP, len(steps) * (BOX_WIDTH + GAP) + 8
    for number, row in enumerate(shown):
        y = middle + (number - (len(shown) - 1) / 2) * ROW
        out.append(arrow(start, middle, end, y, is_broken=row.state == FAILED, is_pending=row.state == PENDING))
        out.append(cluster_line(row, end, y, width))
    label = "From the template to the pods; the table below says the same"
    return picture(width, height, label, out)


def arrow(x1: float, y1: float, x2: float, y2: float, *, is_broken: bool = False, is_pending: bool = False) -> str:
    style = "broken" if is_broken else "pending" if is_pending else ""
    half = num((x1 + x2) / 2)
    return (
        f'<path class="way {style}" d="M{num(x1)} {num(y1)}C{half} {num(y1)} {half} {num(y2)} {num(x2 - 6)} {num(y2)}"/>'
        f'<path class="waytip {style}" d="M{num(x2)} {num(y2)}l-7 -4v8z"/>'
    )


def box(step: Step, x: float, y: float) -> str:
    return (
        f'<g transform="translate({num(x)} {num(y)})"><rect class="step{" missing" if step.is_missing else ""}" '
        f'width="{num(BOX_WIDTH)}" height="{num(BOX_HEIGHT)}" rx="7"/><text x="12" y="17" class="t-xs mu">{esc(step.title)}</text>'
        f'<text x="12" y="34" class="t-m m b">{esc(shortened(step.text, 20))}</text>'
        f'<text x="12" y="49" class="t-xs mu">{esc(shortened(step.note, 30))}</text><title>{esc(step.text)} {esc(step.note)}</title></g>'
    )


def cluster_line(row: Delivery, x: float, y: float, width: float) -> str:
    runs = row.cell.runs()
    room = max(8, int((width - x - 330) // 8))
    scale = max(1, -(-dot_count(runs) // room))
    style = {FAILED: "f-bad", PENDING: "f-wait"}.get(row.state, "mu")
    counts = f"{row.cell.ready + row.cell.held + row.cell.blocked} of {row.cell.target}" if row.cell.target else ""
    is_unhealthy = row.health == "Unhealthy" and not row.cell.starting  # replicas that start are not healthy yet
    note = "dark" if row.cell.lost else "unhealthy" if is_unhealthy else ""
    return (
        f'<g data-cl="{esc(row.cluster)}"><text x="{num(x + 6)}" y="{num(y + 4)}" class="t-s m b">{esc(shortened(row.cluster, 16))}</text>'
        f'<text x="{num(x + 130)}" y="{num(y + 4)}" class="t-s {style}">Work {row.state}<title>{esc(row.message)}</title></text>'
        f'<text x="{num(x + 270)}" y="{num(y + 4)}" class="t-s m e">{counts}</text>'
        f'{dots(runs, x + 282, y - 4, room, scale)}<text x="{num(width - 2)}" y="{num(y + 4)}" class="t-s e f-bad">{note}</text></g>'
    )
