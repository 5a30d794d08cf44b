"""`make bench`: runs each part, writes JSON to bench/results, and prints our figures beside those of the peers.

python -m bench [decide] [placements] [pods] [bind] [server] [propagate] [simulate] [-- flags for the parts]
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
Row = tuple[str, Any, Any, str]
"""The figure's name, our value, the peer's value, and the ratio."""


class Part(NamedTuple):
    """A module that prints JSON, and a function that formats its figures."""

    module: str
    peer: str
    rows: Callable[[Any], Iterator[Row]]
    flags: tuple[str, ...] = ()


def times(better: float | None, worse: float | None) -> str:
    return f"{better / worse:.1f}x" if better and worse else ""


def decide_rows(found: Any) -> Iterator[Row]:
    for cell in found["cells"]:
        for way in ("cold", "warm", "churning"):
            what = f"{cell['strategy']}, {cell['clusters']} clusters, {way}: decisions/CPU-s"
            yield what, cell[way], cell.get("karmada"), times(cell[way], cell.get("karmada"))


def placement_rows(found: Any) -> Iterator[Row]:
    for size in found["results"]:
        for variant, cell in size["variants"].items():
            for way, ours in cell["decisions per CPU-second"].items():
                what = f"{variant}, {size['clusters']} clusters, {way}: decisions/CPU-s"
                yield what, ours, cell["OCM's whole decision"], times(ours, cell["OCM's whole decision"])


def pod_rows(found: Any) -> Iterator[Row]:
    for nodes, cell in found.items():
        if not nodes.isdigit():
            continue
        for workload, figures in cell["scheduling"].items():
            ours, peer = figures["podsPerSecond"], figures["publishedOn5000Nodes"]
            yield f"{workload}, {nodes} nodes: pods/CPU-s", ours, peer, times(ours, peer)
        for mover, figures in cell["planning"].items():
            ours, peer = figures["cpuSeconds"], figures.get("descheduler")
            yield f"{mover}, {nodes} nodes: CPU-s", ours, peer, times(peer, ours)


def bind_rows(found: Any) -> Iterator[Row]:
    for nodes, figures in found.items():
        for what, ours in figures.items():
            yield f"create to bound, {nodes} nodes: {what}", ours, None, ""


def server_rows(found: Any) -> Iterator[Row]:
    peers = found.get("kube-apiserver", found["published"])
    for name, ours in found["trimtab"].items():
        for figure in ("perSecond", "cpuMs", "readySeconds", "residentMiB"):
            if figure in ours:
                mine, peer = ours[figure], peers.get(name, {}).get(figure)
                better = times(mine, peer) if figure == "perSecond" else times(peer, mine)
                yield f"{name}: {figure}", mine, peer, better


def propagate_rows(found: Any) -> Iterator[Row]:
    for cell in found["cells"]:
        peer = cell.get("karmada", {})
        for figure in ("seconds", "cpuMsPerWorkload", "residentMiB", "deleteSeconds"):
            what = f"{cell['workloads']} workloads, {cell['members']} members: {figure}"
            yield what, cell[figure], peer.get(figure), times(peer.get(figure), cell[figure])
        requests = round(cell["writesPerWorkload"] + cell["eventsPerWorkload"], 1)
        what = f"{cell['workloads']} workloads, {cell['members']} members: requestsPerWorkload"
        yield what, requests, peer.get("requestsPerWorkload"), times(peer.get("requestsPerWorkload"), requests)


def plain_rows(found: Any, path: str = "") -> Iterator[Row]:
    """Every number, for parts without a peer."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found):
        if isinstance(value, (dict, list)):
            yield from plain_rows(value, f"{path}{key} ")
        elif isinstance(value, (int, float)):
            yield f"{path}{key}", value, None, ""


PARTS = {
    "decide": Part("bench.decide_karmada", "Karmada", decide_rows),
    "placements": Part("bench.decide_ocm", "Open Cluster Management", placement_rows),
    "pods": Part("bench.decide_pods", "kube-scheduler, descheduler", pod_rows),
    "bind": Part("bench.bind_pods", "none", bind_rows),
    "server": Part("bench.server", "kube-apiserver and etcd", server_rows),
    "propagate": Part("bench.propagate", "Karmada, raised limits", propagate_rows),
    "simulate": Part("bench.simulate", "", plain_rows),
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
        measured(name, PARTS[name], flags)


def measured(name: str, part: Part, flags: Sequence[str]) -> None:
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


if __name__ == "__main__":
    main(sys.argv[1:])
