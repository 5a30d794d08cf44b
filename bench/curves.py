"""Curves of cost against clusters, workloads and churn: `python -m bench.curves clusters|workloads|churn SIZE ...`, `... draw`.

The cost is the number of function calls that Python makes for a workload, members included: on a busy machine it is the
same as on an idle one, which CPU time is not. Measured points are kept in `bench/data/curves.json`; `draw` draws them to
`docs/images/cost-*.svg`.
"""

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.call_count import calls_during
from bench.embedded_fleet import DEPLOYMENTS, NAMESPACE, MeasuredFleet, WorkloadShape, fleet_plan

from trimtab.clock import run_virtually

ROOT = Path(__file__).parent.parent
DATA = ROOT / "bench" / "data" / "curves.json"
SHAPE = WorkloadShape(replicas=10, clusters=3, group_size=20)
FIXED_CLUSTERS, FIXED_WORKLOADS, CHURN_WORKLOADS, WARM_UP = 20, 40, 100, 20
WIDTH, HEIGHT, MARGIN = 460, 260, 56


class Curve(NamedTuple):
    """What one curve shows."""

    title: str
    size: str
    cost: str


CURVES = {
    "clusters": Curve("Create a workload in three clusters", "clusters in the fleet", "thousand calls per workload"),
    "workloads": Curve("Create a workload in three clusters", "workloads", "thousand calls per workload"),
    "churn": Curve("Change workloads", "changed workloads of 100", "thousand calls in all"),
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*CURVES, "draw"])
    parser.add_argument("sizes", type=int, nargs="*")
    given = parser.parse_args(arguments)
    points = json.loads(DATA.read_text()) if DATA.exists() else {}
    if given.what == "draw":
        for name, curve in CURVES.items():
            if len(points.get(name, ())) < 2:
                print(f"{name} has fewer than two points", file=sys.stderr)
                continue
            (ROOT / "docs" / "images" / f"cost-{name}.svg").write_text(draw(curve, points[name]))
        return
    for size in given.sizes:
        cost = run_virtually(MEASURES[given.what](size))
        print(given.what, size, cost, file=sys.stderr, flush=True)
        measured = {**points.get(given.what, {}), str(size): cost}
        points[given.what] = dict(sorted(measured.items(), key=lambda item: int(item[0])))
        DATA.write_text(json.dumps(points, indent=1) + "\n")


async def started_fleet(clusters: int) -> MeasuredFleet:
    fleet = await MeasuredFleet.start(clusters, fleet_plan(clusters, cpu="640", shape=SHAPE), SHAPE)
    await fleet.prepare()
    await fleet.create(WARM_UP)
    return fleet


async def cost_by_clusters(clusters: int) -> float:
    fleet = await started_fleet(clusters)
    calls = await calls_during(fleet.create(FIXED_WORKLOADS, WARM_UP))
    await fleet.stop()
    return round(calls / FIXED_WORKLOADS / 1e3, 2)


async def cost_by_workloads(workloads: int) -> float:
    """The cost of the next workloads when there are so many."""
    fleet = await started_fleet(FIXED_CLUSTERS)
    await fleet.create(workloads - WARM_UP, WARM_UP)
    calls = await calls_during(fleet.create(FIXED_WORKLOADS, workloads))
    await fleet.stop()
    return round(calls / FIXED_WORKLOADS / 1e3, 2)


async def cost_by_churn(changed: int) -> float:
    """The cost of a minute in which so many workloads get another number of replicas."""
    fleet = await started_fleet(FIXED_CLUSTERS)
    await fleet.create(CHURN_WORKLOADS - WARM_UP, WARM_UP)
    calls = await calls_during(change_workloads(fleet, changed))
    await fleet.stop()
    return round(calls / 1e3, 2)


async def change_workloads(fleet: MeasuredFleet, count: int) -> None:
    for number in range(count):
        await fleet.client.patch(DEPLOYMENTS, NAMESPACE, f"web-{number}", {"spec": {"replicas": SHAPE.replicas + 3}})
    await asyncio.sleep(60)
    await fleet.settle()


MEASURES: Mapping[str, Callable[[int], Coroutine[Any, Any, float]]] = {
    "clusters": cost_by_clusters,
    "workloads": cost_by_workloads,
    "churn": cost_by_churn,
}


def draw(curve: Curve, points: Mapping[str, float]) -> str:
    """The curve as SVG: sizes on a logarithmic axis, costs on a linear one that begins at zero."""
    sizes = [max(1, int(size)) for size in points]
    top = max(points.values()) * 1.15
    low, high = math.log(min(sizes)), math.log(max(sizes))

    def place(size: int, cost: float) -> tuple[float, float]:
        x = MARGIN + (math.log(max(1, size)) - low) / (high - low) * (WIDTH - 2 * MARGIN)
        return round(x, 1), round(HEIGHT - MARGIN - cost / top * (HEIGHT - 2 * MARGIN), 1)

    spots = [place(int(size), cost) for size, cost in points.items()]
    line = " ".join(f"{x},{y}" for x, y in spots)
    marks = "".join(
        f'<circle cx="{x}" cy="{y}" r="3" fill="#2563eb"/>'
        f'<text x="{x}" y="{y - 8}" text-anchor="middle">{cost:g}</text>'
        f'<text x="{x}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{size}</text>'
        for (x, y), (size, cost) in zip(spots, points.items(), strict=True)
    )
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="13">{curve.title}</text>'
        f'<path d="M{MARGIN} {MARGIN / 2} V{bottom} H{right}" fill="none" stroke="#555"/>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">{curve.size}</text>'
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">{curve.cost}</text>'
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="1.5"/>{marks}</svg>\n'
    )


if __name__ == "__main__":
    main(sys.argv[1:])
