"""`make bench`: runs each part, writes JSON to bench/results, and prints our figures beside those of the peers.

python -m bench [decide] [placements] [pods] [bind] [server] [fair] [propagate] [simulate] [console] [commands] [-- flags for the parts]
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.recorded import print_changes

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
FigureRow = tuple[str, Any, Any, str]
"""The figure's name, our value, the peer's value, and the ratio."""


class BenchmarkPart(NamedTuple):
    """A module that prints JSON, and a function that formats its figures."""

    module: str
    peer: str
    rows: Callable[[Any], Iterator[FigureRow]]
    flags: tuple[str, ...] = ()


def format_ratio(better: float | None, worse: float | None) -> str:
    return f"{better / worse:.1f}x" if better and worse else ""


def decide_rows(found: Any) -> Iterator[FigureRow]:
    for cell in found["cells"]:
        for way in ("cold", "warm", "churning"):
            what = f"{cell['strategy']}, {cell['clusters']} clusters, {way}: decisions/CPU-s"
            yield what, cell[way], cell.get("karmada"), format_ratio(cell[way], cell.get("karmada"))


def placement_rows(found: Any) -> Iterator[FigureRow]:
    for size in found["results"]:
        for variant, cell in size["variants"].items():
            for way, ours in cell["decisions per CPU-second"].items():
                what = f"{variant}, {size['clusters']} clusters, {way}: decisions/CPU-s"
                yield what, ours, cell["OCM's whole decision"], format_ratio(ours, cell["OCM's whole decision"])


def pod_rows(found: Any) -> Iterator[FigureRow]:
    for nodes, cell in found.items():
        if not nodes.isdigit():
            continue
        for workload, figures in cell["scheduling"].items():
            ours, peer = figures["podsPerCpuSecond"], figures["publishedOn5000Nodes"]
            yield f"{workload}, {nodes} nodes: pods/CPU-s", ours, peer, format_ratio(ours, peer)
        for mover, figures in cell["planning"].items():
            ours, peer = figures["cpuSeconds"], figures.get("descheduler")
            yield f"{mover}, {nodes} nodes: CPU-s", ours, peer, format_ratio(peer, ours)


def bind_rows(found: Any) -> Iterator[FigureRow]:
    for nodes, figures in found.items():
        for what, ours in figures.items() if nodes.isdigit() else ():
            yield f"create to bound, {nodes} nodes: {what}", ours, None, ""


def server_rows(found: Any) -> Iterator[FigureRow]:
    peers = found.get("kube-apiserver", found["published"])
    for name, ours in found["trimtab"].items():
        for figure in ("perSecond", "cpuMs", "readySeconds", "residentMiB"):
            if figure in ours:
                mine, peer = ours[figure], peers.get(name, {}).get(figure)
                better = format_ratio(mine, peer) if figure == "perSecond" else format_ratio(peer, mine)
                yield f"{name}: {figure}", mine, peer, better


def propagate_rows(found: Any) -> Iterator[FigureRow]:
    for cell in found["cells"]:
        peer = cell.get("karmada", {})
        for figure in ("seconds", "cpuMsPerWorkload", "residentMiB", "deleteSeconds"):
            what = f"{cell['workloads']} workloads, {cell['members']} members: {figure}"
            yield what, cell[figure], peer.get(figure), format_ratio(peer.get(figure), cell[figure])
        requests = round(cell["writesPerWorkload"] + cell["eventsPerWorkload"], 1)
        what = f"{cell['workloads']} workloads, {cell['members']} members: requestsPerWorkload"
        yield what, requests, peer.get("requestsPerWorkload"), format_ratio(peer.get("requestsPerWorkload"), requests)


def failover_rows(found: Any) -> Iterator[FigureRow]:
    """Karmada's pods were ready at once, ours take seconds: only its writes are compared."""
    ours, peer = found["writesPerWorkload"], found["karmada"]["writesPerWorkload"]
    yield f"{found['workloads']} workloads: writes and events each", ours, peer, format_ratio(peer, ours)
    for figure in ("secondsFromTheDecisionToReady", "cpuMsPerWorkload"):
        yield f"{found['workloads']} workloads: {figure}", found[figure], None, ""


def plain_rows(found: Any, path: str = "") -> Iterator[FigureRow]:
    """Every number, for parts without a peer."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found):
        if isinstance(value, (dict, list)):
            yield from plain_rows(value, f"{path}{key} ")
        elif isinstance(value, (int, float)):
            yield f"{path}{key}", value, None, ""


PARTS = {
    "decide": BenchmarkPart("bench.decide_karmada", "Karmada", decide_rows),
    "placements": BenchmarkPart("bench.decide_ocm", "Open Cluster Management", placement_rows),
    "pods": BenchmarkPart("bench.decide_pods", "kube-scheduler, descheduler", pod_rows),
    "bind": BenchmarkPart("bench.bind_pods", "none", bind_rows),
    "server": BenchmarkPart("bench.server", "kube-apiserver and etcd", server_rows),
    "fair": BenchmarkPart("bench.fair", "", plain_rows),
    "propagate": BenchmarkPart("bench.propagate", "Karmada, raised limits", propagate_rows),
    "simulate": BenchmarkPart("bench.simulate", "", plain_rows),
    "growth": BenchmarkPart("bench.growth", "", plain_rows),
    "scale": BenchmarkPart("bench.scale", "", plain_rows),
    "failover": BenchmarkPart("bench.failover", "one eviction in a live Karmada", failover_rows),
    "console": BenchmarkPart("bench.console", "", plain_rows),
    "commands": BenchmarkPart("bench.commands", "", plain_rows),
}


def main(arguments: Sequence[str]) -> None:
    names, flags = list(arguments), []
    if "--" in names:
        at = names.index("--")
        names, flags = names[:at], names[at + 1 :]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"unknown part: {', '.join(unknown)}; available: {', '.join(PARTS)}")
    RESULTS.mkdir(exist_ok=True)
    for name in names or PARTS:
        run_part(name, PARTS[name], flags)


def run_part(name: str, part: BenchmarkPart, flags: Sequence[str]) -> None:
    """Run one part in its own process, store its figures and print them beside the peer's."""
    print(f"\n== {name}{f' (peer: {part.peer})' if part.peer else ''}", flush=True)
    completed = subprocess.run(
        [sys.executable, "-m", part.module, *flags], stdout=subprocess.PIPE, cwd=ROOT, check=False
    )
    if completed.returncode:
        print(f"{part.module} failed with {completed.returncode}")
        return
    file = RESULTS / f"{name}.json"
    file.write_bytes(completed.stdout)
    rows = [("", "ours", "peer", "better"), *part.rows(json.loads(completed.stdout))]
    width = max(len(row[0]) for row in rows)
    for what, ours, peer, better in rows:
        print(f"{what.ljust(width)} {ours!s:>12} {'-' if peer is None else peer!s:>12} {better:>9}")
    print(f"(written to {file.relative_to(ROOT)})")
    print_changes(name, json.loads(completed.stdout), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
