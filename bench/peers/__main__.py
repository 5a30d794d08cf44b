"""`make bench-peers`: the peers' algorithms and ours on the same scenarios, measured in the same run.

Each peer is built from its latest published Go module. Decisions of that release that differ from the recorded tree
(Karmada's division has changed since) are counted and named. Ends with the ratios of our rates to those of the version
before; the figures are written to `bench/results/peers.json`.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
from bench import decide_ocm, ocm_scenarios
from bench.decide_karmada import bindings_of, decide_batch
from bench.karmada_scenarios import scenario
from bench.processes import machine
from bench.recorded import print_changes

from trimtab.api.kind import to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import OcmPlacement
from trimtab.api.value import Object
from trimtab.decide.fleet import Fleet
from trimtab.decide.ocm.pipeline import decide
from trimtab.decide.ocm.request import ocm_request_of
from trimtab.decide.ocm.snapshot import PlacementSnapshotCache
from trimtab.interpret.cel.expressions import compiler
from trimtab.plugins import load

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
MODULES = {"karmada": "github.com/karmada-io/karmada", "ocm": "open-cluster-management.io/ocm"}
SIZES = (100, 1000)
OCM_SIZES = (100, 1000, 3000)
OCM_TIMES = 10
MAX_BINDINGS = 200
PASSES = 5


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trimtab" / "peers"


def release(peer: str) -> str:
    """The release of the peer that its go.mod pins."""
    for line in (HERE / peer / "go.mod").read_text().splitlines():
        parts = line.replace("require", "").split()
        if parts and parts[0] == MODULES[peer]:
            return parts[1]
    raise SystemExit(f"bench/peers/{peer}/go.mod has no release of {MODULES[peer]}")


def program(peer: str) -> Path:
    """The peer's program, built once into a cache outside the repository."""
    built = cache() / f"{peer}-{release(peer)}"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        raise SystemExit("bench-peers needs Go to build the peers; it is not installed")
    print(f"building {MODULES[peer]} {release(peer)} into {built} (takes some minutes, once)", flush=True)
    built.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE / peer, env=environment, check=False)
    if done.returncode:
        raise SystemExit(
            f"{peer} cannot be built: its modules cannot be downloaded or do not compile with this Go version"
        )
    return built


def run_peer(peer: str, request: dict[str, Any], *flags: str) -> list[dict[str, Any]]:
    """The output of the peer's program, line by line; single-threaded, as the peers decide."""
    ran = subprocess.run(
        [program(peer), *flags],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=True,
        env=os.environ | {"GOMAXPROCS": "1"},
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def our_decisions(inputs: dict[str, Any]) -> dict[str, tuple[float, list[dict[str, int]]]]:
    """CPU seconds when warm, and the decisions, for each strategy."""
    fleet = Fleet.of(msgspec.convert(inputs["clusters"], list[Cluster], strict=False))
    found = {}
    for strategy in inputs["strategies"]:
        bindings = bindings_of(strategy)[:MAX_BINDINGS]
        decide_batch(bindings, fleet)
        spent = []
        for _ in range(PASSES):
            begun = time.process_time()
            decisions = decide_batch(bindings, fleet)
            spent.append(time.process_time() - begun)
        found[strategy["name"]] = (min(spent), [dict(decision.clusters) for decision in decisions])
    return found


def karmada() -> Iterator[dict[str, Any]]:
    """Prints the rates of both; yields ours."""
    print(f"\nKarmada {release('karmada')}, {MAX_BINDINGS} bindings of each strategy, decisions per CPU-second, warm")
    print(f"{'clusters':>8}  {'strategy':<18}{'Karmada':>10}{'Trimtab':>10}{'ratio':>8}  equal decisions")
    differing = set()
    for size in SIZES:
        inputs = scenario(size)
        peers = {outcome["strategy"]: outcome for outcome in run_peer("karmada", inputs, "--most", str(MAX_BINDINGS))}
        for name, (seconds, decisions) in our_decisions(inputs).items():
            peer_result = peers[name]
            equal = sum(one == other for one, other in zip(peer_result["decisions"], decisions, strict=True))
            if equal < MAX_BINDINGS:
                differing.add(name)
            theirs, ours = peer_result["count"] / peer_result["cpuSeconds"], MAX_BINDINGS / seconds
            print_row(size, name, theirs, ours, f"{equal} of {MAX_BINDINGS}")
            yield {"strategy": name, "clusters": size, "warm": round(ours)}
    if differing:
        print(f"Strategies whose decisions differ from the recorded tree: {', '.join(sorted(differing))}.")


def ocm() -> Iterator[dict[str, Any]]:
    """Prints the rates of both; yields ours."""
    print(f"\nOpen Cluster Management {release('ocm')}, decisions per CPU-second, warm")
    print(f"{'clusters':>8}  {'variant':<18}{'OCM':>10}{'Trimtab':>10}{'ratio':>8}  equal decisions")
    for size in OCM_SIZES:
        things = ocm_scenarios.fleet(size)
        snapshots = PlacementSnapshotCache(things)
        for outcome in run_peer("ocm", peer_input(things), "--times", str(OCM_TIMES)):
            variant = outcome["variant"]
            our_names = our_clusters(variant, snapshots)
            equal = (
                "yes"
                if our_names == outcome["clusters"]
                else f"no ({len(set(our_names) & set(outcome['clusters']))} in common)"
            )
            theirs, ours = outcome["count"] / outcome["cpuSeconds"], decide_ocm.warm(snapshots, variant)
            print_row(size, variant, theirs, ours, equal)
            yield {"strategy": f"Placement {variant}", "clusters": size, "warm": round(ours)}


def peer_input(things: list[Object]) -> dict[str, Any]:
    """The input of the peer's program."""
    input_lists = {"ManagedCluster": "clusters", "PlacementDecision": "decisions", "AddOnPlacementScore": "scores"}
    peer_objects: dict[str, Any] = {"clusters": [], "decisions": [], "scores": [], "placements": []}
    for raw in map(to_wire, things):
        if raw["kind"] in input_lists:
            peer_objects[input_lists[raw["kind"]]].append(raw)
    for variant in ocm_scenarios.VARIANTS:
        raw = to_wire(ocm_scenarios.placement(variant))
        raw["metadata"]["annotations"] = {"variant": variant}
        peer_objects["placements"].append(raw)
    return peer_objects


def our_clusters(variant: str, snapshots: PlacementSnapshotCache) -> list[str]:
    snapshot = snapshots.snapshot(decide_ocm.NOW)
    placement = cast("OcmPlacement", ocm_scenarios.placement(variant))
    columns = decide(ocm_request_of(placement, snapshot, compiler()), snapshot).result.chosen
    return sorted(snapshot.fleet.names[column] for column in columns)


def print_row(size: int, name: str, theirs: float, our_rate: float, equal: str) -> None:
    print(f"{size:>8}  {name:<18}{theirs:>10.1f}{our_rate:>10.0f}{our_rate / theirs:>7.0f}x  {equal}", flush=True)


def main() -> int:
    load()
    for peer in MODULES:
        program(peer)
    found = {"cells": [*karmada(), *ocm()], "machine": machine()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "peers.json").write_text(json.dumps(found, indent=1) + "\n")
    print_changes("peers", found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
