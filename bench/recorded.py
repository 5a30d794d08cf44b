"""Ratios of the figures of a run to those of the version before, which are in `bench/data/recorded.json`.

Every part prints the CPU time of a constant loop (`machine.loopMs`, or `loopMs` if it was measured during the run). CPU times
are divided by it before they are compared, because a CPU second is worth less while other processes use the same core; rates per
CPU second are multiplied by it. Counts and memory are compared as they are.
`python -m bench.recorded PART FILE` records the figures in a file of results as the version to compare with.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

RECORDED = Path(__file__).parent / "data" / "recorded.json"
CPU_NAMES = ("cpu", "Cpu")
RATE_NAMES = ("cold", "warm", "churning", "controller", "PerCpuSecond")
"""Decisions or pods per CPU second: the more, the better."""
IGNORED = (
    "machine",
    "loopMs",
    "karmada",
    "published",
    "aims",
    "latencySeconds",
    "ratio",
    "times OCM",
    "OCM's whole decision",
    "publishedOn5000Nodes",
    "planning",
)
NAMES = ("step", "strategy", "workloads", "members", "clusters")
"""What distinguishes the items of a list; no figures."""


class Change(NamedTuple):
    """One figure before and now."""

    name: str
    before: float
    now: float
    ratio: float
    """Now to before, at the same speed of the processor if it is a CPU time or a rate per CPU second."""


def figures_of(found: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All figures of a result by their path; items of lists are named by what identifies them."""
    items = found.items() if isinstance(found, Mapping) else ((_name_of(item, n), item) for n, item in enumerate(found))
    for key, value in items:
        if key in IGNORED or (key in NAMES and not isinstance(value, Mapping)):
            continue
        if isinstance(value, Mapping | list):
            yield from figures_of(value, f"{path}{key} ")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{path}{key}", value


def _name_of(item: Any, number: int) -> str:
    """What distinguishes an item of a list from the others: its step, or its sizes."""
    if not isinstance(item, Mapping):
        return str(number)
    return ", ".join(
        str(item[name]) if isinstance(item[name], str) else f"{item[name]} {name}" for name in NAMES if name in item
    )


def changes_of(before: Mapping[str, Any], found: Mapping[str, Any]) -> list[Change]:
    """The figures that both results have."""
    speed = _loop_of(found) / _loop_of(before) if _loop_of(found) and _loop_of(before) else 1.0
    known = dict(figures_of(before))
    changes = []
    for name, now in figures_of(found):
        if known.get(name):
            ratio = now / known[name]
            if any(part in name for part in RATE_NAMES):
                ratio *= speed
            elif any(part in name for part in CPU_NAMES):
                ratio /= speed
            changes.append(Change(name, known[name], now, ratio))
    return changes


def _loop_of(found: Mapping[str, Any]) -> float:
    during = found.get("loopMs", {}).get("p50")
    return float(during or found.get("machine", {}).get("loopMs") or 0)


def print_changes(part: str, found: Mapping[str, Any], out: TextIO) -> None:
    recorded = json.loads(RECORDED.read_text())
    if part not in recorded:
        print(f"(no earlier figures of {part} are recorded)", file=out)
        return
    before = recorded[part]
    print(f"against {before['version']}; CPU times at the same speed of the processor:", file=out)
    for change in changes_of(before, found):
        print(f"  {change.name}: {change.before:g} -> {change.now:g} ({change.ratio:.2f})", file=out)


def record(part: str, file: Path, version: str) -> None:
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    recorded[part] = {"version": version, **json.loads(file.read_text())}
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 3:
        sys.exit("usage: python -m bench.recorded PART FILE VERSION")
    record(arguments[0], Path(arguments[1]), arguments[2])


if __name__ == "__main__":
    main(sys.argv[1:])
