"""kube-scheduler's preemption: victims of every candidate node, violated budgets, and the chosen node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from compat.families.k8s_sched import node_snapshot
from compat.k8s_cases import Outcome, compare_cases, differences

from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import UPSTREAM
from trimtab.decide.framework import Reason
from trimtab.decide.pods.budgets.budget_status import preemption_budget
from trimtab.decide.pods.preemption.preempt import preempt
from trimtab.decide.pods.schedule import explain


def run(path: str | Path) -> Iterator[Outcome]:
    return compare_cases(path, case_differences)


def case_differences(case: dict[str, Any]) -> list[str]:
    fields = ("filter", "filterCode", "victims", "pdbViolations")
    got = preemption_result(case)
    found_differences = differences(
        {field: case.get(field) for field in fields}, {field: got.get(field) for field in fields}
    )
    if got.get("chosen") not in case["chosenAmong"] or case["chosenNode"] not in got.get("tied", ()):
        found_differences.append(
            f"chosen: recorded {case['chosenNode']} of {case['chosenAmong']}, ours {got.get('chosen')}"
        )
    return found_differences


def preemption_result(case: dict[str, Any]) -> dict[str, Any]:
    fleet = node_snapshot(case)
    pod = msgspec.convert(case["pod"], Pod, strict=False)
    opinions = explain(pod, fleet)
    filtered = {
        "filter": {opinion.node: opinion.rejection.plugin if opinion.rejection else "" for opinion in opinions},
        "filterCode": {opinion.node: opinion.rejection.reason.code for opinion in opinions if opinion.rejection},
    }
    budgets = msgspec.convert(case.get("pdbs") or [], list[PodDisruptionBudget], strict=False)
    found = preempt(pod, fleet, [preemption_budget(budget) for budget in budgets], UPSTREAM)
    if isinstance(found, Reason):
        return filtered
    return filtered | {
        "victims": {candidate.node: [one.name for one in candidate.victims] for candidate in found.candidates},
        "pdbViolations": {candidate.node: candidate.violations for candidate in found.candidates},
        "chosen": found.chosen.node,
        "tied": found.tied,
    }
