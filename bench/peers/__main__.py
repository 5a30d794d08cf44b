"""`make bench-peers`: the peers' own algorithms and ours over the same scenarios, measured in the same run.

Each peer is built from its published Go module, the newest release that can be had; what that release decides
otherwise than the recorded tree does (Karmada's division has changed since) is counted and named, never hidden.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgspec
from bench import decide_ocm, ocm_scenarios
from bench.decide_karmada import bindings_of, decided_batch
from bench.karmada_scenarios import scenario

from trimtab.api.kind import wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import OcmPlacement
from trimtab.api.value import Object
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.pipeline import decide
from trimtab.decide.ocm.request import ask_of
from trimtab.decide.ocm.snapshot import Atlas
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

HERE = Path(__file__).parent
MODULES = {"karmada": "github.com/karmada-io/karmada", "ocm": "open-cluster-management.io/ocm"}
SIZES = (100, 1000)
OCM_SIZES = (100, 1000, 3000)
OCM_TIMES = 10
MOST = 200
PASSES = 5


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trimtab" / "peers"


def release(peer: str) -> str:
    """The release of the peer that its go.mod pins."""
    for line in (HERE / peer / "go.mod").read_text().splitlines():
        words = line.replace("require", "").split()
        if words and words[0] == MODULES[peer]:
            return words[1]
    raise SystemExit(f"bench/peers/{peer}/go.mod names no release of {MODULES[peer]}")


def program(peer: str) -> Path:
    """The peer's program, built once into a cache outside the repository."""
    built = cache() / f"{peer}-{release(peer)}"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        raise SystemExit("bench-peers needs Go to build the peers, and there is none on this machine")
    print(f"building {MODULES[peer]} {release(peer)} into {built} (some minutes, once)", flush=True)
    built.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE / peer, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{peer} cannot be built here: its modules cannot be had, or do not compile with this Go")
    return built


def asked(peer: str, question: dict[str, Any], *flags: str) -> list[dict[str, Any]]:
    """What the peer's program answers, line by line; one thread, as the peers decide."""
    ran = subprocess.run(
        [program(peer), *flags],
        input=json.dumps(question).encode(),
        capture_output=True,
        check=True,
        env=os.environ | {"GOMAXPROCS": "1"},
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def ours(made: dict[str, Any]) -> dict[str, tuple[float, list[dict[str, int]]]]:
    """Seconds of CPU, warm, and the decisions, for each strategy."""
    fleet = Fleet.of(msgspec.convert(made["clusters"], list[Cluster], strict=False))
    found = {}
    for strategy in made["strategies"]:
        bindings = bindings_of(strategy)[:MOST]
        decided_batch(bindings, fleet)
        spent = []
        for _ in range(PASSES):
            begun = time.process_time()
            decisions = decided_batch(bindings, fleet)
            spent.append(time.process_time() - begun)
        found[strategy["name"]] = (min(spent), [dict(decision.clusters) for decision in decisions])
    return found


def karmada() -> None:
    print(f"\nKarmada {release('karmada')}, {MOST} bindings of each strategy, decisions per CPU-second, warm")
    print(f"{'clusters':>8}  {'strategy':<18}{'Karmada':>10}{'Trimtab':>10}{'ratio':>8}  equal decisions")
    otherwise = set()
    for size in SIZES:
        made = scenario(size)
        peers = {outcome["strategy"]: outcome for outcome in asked("karmada", made, "--most", str(MOST))}
        for name, (seconds, decisions) in ours(made).items():
            them = peers[name]
            equal = sum(one == other for one, other in zip(them["decisions"], decisions, strict=True))
            if equal < MOST:
                otherwise.add(name)
            told(size, name, them["count"] / them["cpuSeconds"], MOST / seconds, f"{equal} of {MOST}")
    if otherwise:
        print(f"This release decides otherwise than the recorded tree in: {', '.join(sorted(otherwise))}.")


def ocm() -> None:
    print(f"\nOpen Cluster Management {release('ocm')}, decisions per CPU-second, warm")
    print(f"{'clusters':>8}  {'variant':<18}{'OCM':>10}{'Trimtab':>10}{'ratio':>8}  equal decisions")
    for size in OCM_SIZES:
        things = ocm_scenarios.fleet(size)
        atlas = Atlas(things)
        for outcome in asked("ocm", scene_for(things), "--times", str(OCM_TIMES)):
            variant = outcome["variant"]
            own = chosen(variant, atlas)
            equal = (
                "yes" if own == outcome["clusters"] else f"no ({len(set(own) & set(outcome['clusters']))} in common)"
            )
            told(size, variant, outcome["count"] / outcome["cpuSeconds"], decide_ocm.warm(atlas, variant), equal)


def scene_for(things: list[Object]) -> dict[str, Any]:
    """The scene as the peer reads it."""
    shelves = {"ManagedCluster": "clusters", "PlacementDecision": "decisions", "AddOnPlacementScore": "scores"}
    scene: dict[str, Any] = {"clusters": [], "decisions": [], "scores": [], "placements": []}
    for raw in map(wire, things):
        if raw["kind"] in shelves:
            scene[shelves[raw["kind"]]].append(raw)
    for variant in ocm_scenarios.VARIANTS:
        raw = wire(ocm_scenarios.placement(variant))
        raw["metadata"]["annotations"] = {"variant": variant}
        scene["placements"].append(raw)
    return scene


def chosen(variant: str, atlas: Atlas) -> list[str]:
    scene = atlas.scene(decide_ocm.NOW)
    placement = cast("OcmPlacement", ocm_scenarios.placement(variant))
    columns = decide(ask_of(placement, scene, compiler()), scene).found.chosen.tolist()
    return sorted(scene.fleet.names[column] for column in columns)


def told(size: int, name: str, theirs: float, own: float, equal: str) -> None:
    print(f"{size:>8}  {name:<18}{theirs:>10.1f}{own:>10.0f}{own / theirs:>7.0f}x  {equal}", flush=True)


def main() -> int:
    load()
    for peer in MODULES:
        program(peer)
    karmada()
    ocm()
    return 0


if __name__ == "__main__":
    sys.exit(main())
