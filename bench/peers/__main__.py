"""`make bench-peers`: Karmada's own scheduling algorithm and ours over the same scenario, measured in the same run.

The peer is built from its published Go module, the newest release that can be had; what that release decides otherwise
than the recorded tree does (its division has changed since) is counted and named, never hidden.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from bench.decide_karmada import bindings_of, decided_batch
from bench.karmada_scenarios import scenario

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.plugins import load

HERE = Path(__file__).parent
SIZES = (100, 1000)
MOST = 200
PASSES = 5


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trimtab" / "peers"


def release() -> str:
    """The release of Karmada that go.mod pins."""
    for line in (HERE / "karmada" / "go.mod").read_text().splitlines():
        words = line.replace("require", "").split()
        if words and words[0] == "github.com/karmada-io/karmada":
            return words[1]
    raise SystemExit("bench/peers/karmada/go.mod names no release of Karmada")


def peer() -> Path:
    """The peer's program, built once into a cache outside the repository."""
    built = cache() / f"karmada-{release()}"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        raise SystemExit("bench-peers needs Go to build the peer, and there is none on this machine")
    print(f"building Karmada {release()} from its Go module into {built} (some minutes, once)", flush=True)
    built.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    done = subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE / "karmada", env=environment, check=False)
    if done.returncode:
        raise SystemExit("the peer cannot be built here: its modules cannot be had, or do not compile with this Go")
    return built


def theirs(program: Path, made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    ran = subprocess.run(
        [program, "--most", str(MOST)],
        input=json.dumps(made).encode(),
        capture_output=True,
        check=True,
        env=os.environ | {"GOMAXPROCS": "1"},
    )
    return {outcome["strategy"]: outcome for outcome in map(json.loads, ran.stdout.splitlines())}


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


def main() -> int:
    load()
    program = peer()
    print(f"Karmada {release()} and Trimtab, {MOST} bindings of each strategy, decisions per CPU-second, warm, one run")
    print(f"{'clusters':>8}  {'strategy':<14}{'Karmada':>10}{'Trimtab':>10}{'ratio':>8}  equal decisions")
    otherwise = set()
    for size in SIZES:
        made = scenario(size)
        peers, mine = theirs(program, made), ours(made)
        for name, (seconds, decisions) in mine.items():
            them = peers[name]
            rate, own = them["count"] / them["cpuSeconds"], MOST / seconds
            equal = sum(one == other for one, other in zip(them["decisions"], decisions, strict=True))
            if equal < MOST:
                otherwise.add(name)
            print(f"{size:>8}  {name:<14}{rate:>10.0f}{own:>10.0f}{own / rate:>7.0f}x  {equal} of {MOST}", flush=True)
    if otherwise:
        print(f"This release decides otherwise than the recorded tree in: {', '.join(sorted(otherwise))}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
