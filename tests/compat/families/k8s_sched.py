"""kube-scheduler's filters and scores for one pod on one cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from compat.k8s_cases import Outcome, compare_cases, differences

from trimtab import plugins
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import explain, schedule

plugins.load()

COMPARED = ("filter", "filterCode", "scores", "total", "best")


def run(path: str | Path) -> Iterator[Outcome]:
    return compare_cases(path, case_differences)


def case_differences(case: dict[str, Any]) -> list[str]:
    return differences({field: case.get(field) for field in COMPARED}, scheduling_result(case))


def node_snapshot(case: dict[str, Any]) -> NodeSnapshot:
    nodes = msgspec.convert(case["nodes"], tuple[Node, ...], strict=False)
    pods = msgspec.convert(case.get("pods") or [], tuple[Pod, ...], strict=False)
    return NodeSnapshot.of(nodes, pods)


def scheduling_result(case: dict[str, Any]) -> dict[str, Any]:
    fleet = node_snapshot(case)
    pod = msgspec.convert(case["pod"], Pod, strict=False)
    opinions = explain(pod, fleet)
    feasible = [opinion for opinion in opinions if opinion.rejection is None]
    decision = schedule(pod, fleet)
    top = max((opinion.total for opinion in feasible), default=0)
    best = sorted(opinion.node for opinion in feasible if opinion.total == top)
    if decision.node not in (best or [None]):
        best = [f"the decision is {decision.node}, the explanation {best}"]
    return {
        "filter": {opinion.node: opinion.rejection.plugin if opinion.rejection else "" for opinion in opinions},
        "filterCode": {opinion.node: opinion.rejection.reason.code for opinion in opinions if opinion.rejection},
        "scores": {opinion.node: dict(opinion.scores) for opinion in feasible},
        "total": {opinion.node: opinion.total for opinion in feasible},
        "best": best,
    }
