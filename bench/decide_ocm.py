"""Decisions for Placements per CPU-second: cold, warm and while the fleet changes; and whole passes of the controller.

No answer comes from a memory of whole questions: name, clusters in use and number of clusters differ every time.
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

from trimtab import plugins
from trimtab.api.kinds.ocm import ManagedCluster, OcmPlacement
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Object
from trimtab.controllers.contract import Wish
from trimtab.controllers.ocm.placement import place
from trimtab.decide.ocm.pipeline import decide
from trimtab.decide.ocm.request import PlacementAsk
from trimtab.decide.ocm.snapshot import Atlas, Scene
from trimtab.interpret.cel.expressions import compiler

NOW = datetime.fromisoformat(scenarios.NOW)
COLD_BATCH = 2_000
CHURN_BATCH = 200


def asks(variant: str, scene: Scene, count: int, dice: random.Random) -> list[PlacementAsk]:
    """Questions of one kind, no two alike: another name, other clusters in use, another number of clusters."""
    base = cast("OcmPlacement", scenarios.placement(variant)).spec
    booked = scene.held_by("ns1", "bench").decided
    made = []
    for number in range(count):
        spec = base if base.number_of_clusters is None else base.but(number_of_clusters=5 + number % 11)
        placed = tuple(sorted(dice.sample(scene.fleet.names, 10)))
        made.append(
            PlacementAsk(
                namespace="ns1",
                name=f"bench-{number}",
                spec=spec,
                now=scene.now,
                placed=placed,
                decided=booked,
                cel=compiler(),
            )
        )
    return made


def answered(questions: Iterable[PlacementAsk], scene: Scene) -> int:
    """Decide them all, every list of names written out; how many names came out in the end."""
    return sum(len(group.clusters) for ask in questions for group in decide(ask, scene).groups)


def rate(count: int, work: Callable[[], object]) -> float:
    before = process_time()
    work()
    return count / max(process_time() - before, 1e-9)


def cold(things: Sequence[Object], variant: str) -> float:
    questions = asks(variant, Atlas(things).scene(NOW), COLD_BATCH, random.Random(1))
    return rate(COLD_BATCH, lambda: answered(questions, Atlas(things).scene(NOW)))


def warm(atlas: Atlas, variant: str) -> float:
    scene = atlas.scene(NOW)
    questions = asks(variant, scene, COLD_BATCH, random.Random(2))
    answered(questions[:5], scene)
    best = 0.0
    for _ in range(3):
        best = max(best, rate(len(questions), lambda: answered(questions, scene)))
    return best


def churning(atlas: Atlas, variant: str, batches: int = 10) -> float:
    """One in a hundred clusters changes between batches; learning of it is part of the time."""
    dice = random.Random(3)
    spent, done = 0.0, 0
    for _ in range(batches):
        changes = list(changed(atlas.scene(NOW), dice))
        questions = asks(variant, atlas.scene(NOW), CHURN_BATCH, dice)
        before = process_time()
        for old, new in changes:
            atlas.learn(old, new)
        answered(questions, atlas.scene(NOW))
        spent += process_time() - before
        done += len(questions)
    return done / spent


def changed(scene: Scene, dice: random.Random) -> Iterable[tuple[ManagedCluster, ManagedCluster]]:
    for old in dice.sample(list(scene.fleet.targets), max(1, len(scene.fleet) // 100)):
        labels = {**old.metadata.labels, "env": dice.choice(["prod", "dev"])}
        room = {**old.status.allocatable, "memory": f"{dice.randint(16, 4096)}Gi"}
        yield old, old.but(metadata=old.metadata.but(labels=labels), status=old.status.but(allocatable=room))


class Looking:
    """The View of a controller that has only the atlas to look at."""

    profile = TRIMTAB
    settings: dict[str, Any] = {}
    fault = None

    def __init__(self, atlas: Atlas, now: datetime) -> None:
        self.now = now
        self._parts = {"atlas": atlas, "cel": compiler()}

    def part(self, name: str) -> Any:
        return self._parts[name]


def passes(atlas: Atlas, variant: str) -> dict[str, float]:
    """The controller from Placement to wishes: with nothing to write, and with decisions to write and to learn."""
    placement = cast("OcmPlacement", scenarios.placement(variant))
    placement = settle(placement, atlas, NOW)
    count = 500
    later = iter(range(1, 10**9))

    def quiet() -> None:
        for _ in range(count):
            wishes = list(wished(placement, atlas, NOW + timedelta(milliseconds=next(later))))
            assert not any(isinstance(wish, Object) for wish in wishes), "there was something to write"

    def writing() -> None:
        for number in range(count):
            other = cast("OcmPlacement", scenarios.placement(variant, f"writing-{variant[0]}-{number}"))
            settle(other, atlas, NOW, rounds=1)

    best = max(rate(count, quiet) for _ in range(3))
    return {"nothing to write": best, "with writes": rate(count, writing)}


def wished(placement: OcmPlacement, atlas: Atlas, now: datetime) -> Iterable[Wish]:
    return place(placement, cast("Any", Looking(atlas, now)))


def settle(placement: OcmPlacement, atlas: Atlas, now: datetime, rounds: int = 3) -> OcmPlacement:
    """Grant the controller's wishes, as often as given."""
    for _ in range(rounds):
        for wish in list(wished(placement, atlas, now)):
            if isinstance(wish, OcmPlacement):
                placement = wish
            elif isinstance(wish, Object):
                held = atlas.scene(now).held_by(placement.namespace, placement.name).pages.get(wish.name)
                atlas.learn(held.decision if held else None, wish)
    return placement


def measure(size: int) -> dict[str, Any]:
    things = scenarios.fleet(size)
    cells: dict[str, Any] = {}
    for variant, theirs in zip(scenarios.VARIANTS, scenarios.UPSTREAM_WHOLE[size], strict=True):
        atlas = Atlas(things)
        ours: dict[str, float] = {
            "cold": cold(things, variant),
            "warm": warm(atlas, variant),
            "churning": churning(atlas, variant),
        }
        ours.update({f"controller, {how}": speed for how, speed in passes(Atlas(things), variant).items()})
        cells[variant] = {
            "decisions per CPU-second": {how: round(speed, 1) for how, speed in ours.items()},
            "OCM's whole decision": theirs,
            "times OCM": {how: round(speed / theirs, 1) for how, speed in ours.items()},
        }
    return {"clusters": size, "variants": cells, "peak memory MiB": peak()}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(sizes: Sequence[int] = scenarios.SIZES) -> dict[str, Any]:
    plugins.load()
    return {"part": "decide, dialect ocm", "results": [measure(size) for size in sizes]}


if __name__ == "__main__":
    chosen = [int(size) for size in sys.argv[1:]]
    print(json.dumps(main(chosen or scenarios.SIZES), indent=2))
