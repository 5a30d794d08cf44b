"""Placement decisions per CPU-second: cold, warm and with changes of the fleet; and whole controller passes.

Nothing is answered from a cache of whole requests: name, clusters in use and number of clusters always differ.
"""

import json
import random
import resource
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from time import process_time
from typing import Any, cast

from bench import ocm_scenarios as scenarios
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab import plugins
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Object
from trimtab.controllers.contract import Effect
from trimtab.controllers.ocm.placement import placement as reconcile_placement
from trimtab.decide.ocm.pipeline import decide
from trimtab.decide.ocm.request import OcmRequest
from trimtab.decide.ocm.snapshot import PlacementSnapshot, PlacementSnapshotCache
from trimtab.interpret.cel.expressions import compiler

NOW = datetime.fromisoformat(scenarios.NOW)
COLD_BATCH = 2_000
CHURN_BATCH = 200


def make_requests(variant: str, snapshot: PlacementSnapshot, count: int, rng: random.Random) -> list[OcmRequest]:
    """Different requests of one kind: other names, other clusters in use, another number of clusters."""
    base = cast("OcmPlacement", scenarios.placement(variant)).spec
    previous_decision = snapshot.decisions_of("ns1", "bench").listed_clusters
    made = []
    for number in range(count):
        spec = base if base.number_of_clusters is None else base.but(number_of_clusters=5 + number % 11)
        placed = tuple(sorted(rng.sample(snapshot.fleet.names, 10)))
        made.append(
            OcmRequest(
                namespace="ns1",
                name=f"bench-{number}",
                spec=spec,
                now=snapshot.now,
                placed=placed,
                decided=previous_decision,
                cel=compiler(),
            )
        )
    return made


def count_decided_names(requests: Iterable[OcmRequest], snapshot: PlacementSnapshot) -> int:
    """Decide all requests; returns the total number of chosen names."""
    return sum(len(group.clusters) for request in requests for group in decide(request, snapshot).groups)


def rate(count: int, work: Callable[[], object]) -> float:
    before = process_time()
    work()
    return count / max(process_time() - before, 1e-9)


def cold(things: Sequence[Object], variant: str) -> float:
    requests = make_requests(variant, PlacementSnapshotCache(things).snapshot(NOW), COLD_BATCH, random.Random(1))
    return rate(COLD_BATCH, lambda: count_decided_names(requests, PlacementSnapshotCache(things).snapshot(NOW)))


def warm(snapshots: PlacementSnapshotCache, variant: str) -> float:
    snapshot = snapshots.snapshot(NOW)
    requests = make_requests(variant, snapshot, COLD_BATCH, random.Random(2))
    count_decided_names(requests[:5], snapshot)
    best = 0.0
    for _ in range(3):
        best = max(best, rate(len(requests), lambda: count_decided_names(requests, snapshot)))
    return best


def with_churn(snapshots: PlacementSnapshotCache, variant: str, batches: int = 10) -> float:
    """One in a hundred clusters changes between batches; processing the change is included."""
    rng = random.Random(3)
    spent, done = 0.0, 0
    for _ in range(batches):
        changes = list(changed_clusters(snapshots.snapshot(NOW), rng))
        requests = make_requests(variant, snapshots.snapshot(NOW), CHURN_BATCH, rng)
        before = process_time()
        for old, new in changes:
            snapshots.update(old, new)
        count_decided_names(requests, snapshots.snapshot(NOW))
        spent += process_time() - before
        done += len(requests)
    return done / spent


def changed_clusters(
    snapshot: PlacementSnapshot, rng: random.Random
) -> Iterable[tuple[ManagedCluster, ManagedCluster]]:
    for old in rng.sample(list(snapshot.fleet.targets), max(1, len(snapshot.fleet) // 100)):
        labels = {**old.metadata.labels, "env": rng.choice(["prod", "dev"])}
        capacity = {**old.status.allocatable, "memory": f"{rng.randint(16, 4096)}Gi"}
        yield old, old.but(metadata=old.metadata.but(labels=labels), status=old.status.but(allocatable=capacity))


class SnapshotView:
    """A controller's View that contains only the placement snapshot."""

    profile = TRIMTAB
    settings: dict[str, Any] = {}
    fault = None

    def __init__(self, snapshots: PlacementSnapshotCache, now: datetime) -> None:
        self.now = now
        self.cel = compiler()
        self.placement_snapshot = snapshots.snapshot(now)


def controller_passes(snapshots: PlacementSnapshotCache, variant: str) -> dict[str, float]:
    """The controller from Placement to effects: with nothing to write, and with decisions to write and to learn."""
    placement = cast("OcmPlacement", scenarios.placement(variant))
    placement = apply_effects(placement, snapshots, NOW)
    count = 500
    later = iter(range(1, 10**9))

    def quiet() -> None:
        for _ in range(count):
            effects = list(controller_effects(placement, snapshots, NOW + timedelta(milliseconds=next(later))))
            assert not any(isinstance(effect, Object) for effect in effects), "unexpected write"

    def writing() -> None:
        for number in range(count):
            other = cast("OcmPlacement", scenarios.placement(variant, f"writing-{variant[0]}-{number}"))
            apply_effects(other, snapshots, NOW, rounds=1)

    best = max(rate(count, quiet) for _ in range(3))
    return {"nothing to write": best, "with writes": rate(count, writing)}


def controller_effects(placement: OcmPlacement, snapshots: PlacementSnapshotCache, now: datetime) -> Iterable[Effect]:
    return reconcile_placement(placement, cast("Any", SnapshotView(snapshots, now)))


def apply_effects(
    placement: OcmPlacement, snapshots: PlacementSnapshotCache, now: datetime, rounds: int = 3
) -> OcmPlacement:
    """Apply the controller's effects for the given number of rounds."""
    for _ in range(rounds):
        for effect in list(controller_effects(placement, snapshots, now)):
            if isinstance(effect, OcmPlacement):
                placement = effect
            elif isinstance(effect, Object):
                page = snapshots.snapshot(now).decisions_of(placement.namespace, placement.name).pages.get(effect.name)
                snapshots.update(page.decision if page else None, effect)
    return placement


def measure(size: int) -> dict[str, Any]:
    things = scenarios.fleet(size)
    cells: dict[str, Any] = {}
    for variant, theirs in zip(scenarios.VARIANTS, scenarios.UPSTREAM_WHOLE[size], strict=True):
        snapshots = PlacementSnapshotCache(things)
        ours: dict[str, float] = {
            "cold": cold(things, variant),
            "warm": warm(snapshots, variant),
            "churning": with_churn(snapshots, variant),
        }
        ours.update(
            {
                f"controller, {how}": speed
                for how, speed in controller_passes(PlacementSnapshotCache(things), variant).items()
            }
        )
        cells[variant] = {
            "decisions per CPU-second": {how: round(speed, 1) for how, speed in ours.items()},
            "OCM's whole decision": theirs,
            "times OCM": {how: round(speed / theirs, 1) for how, speed in ours.items()},
        }
    return {"clusters": size, "variants": cells, "peak memory MiB": peak_memory()}


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(sizes: Sequence[int] = scenarios.SIZES) -> dict[str, Any]:
    plugins.load()
    collect_garbage_as_servers_do()
    results = [measure(size) for size in sizes]
    return {"part": "decide, dialect ocm", "machine": machine(), "results": results}


if __name__ == "__main__":
    chosen = [int(size) for size in sys.argv[1:]]
    print(json.dumps(main(chosen or scenarios.SIZES), indent=2))
