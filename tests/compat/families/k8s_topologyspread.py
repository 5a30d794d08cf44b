"""RemovePodsViolatingTopologySpreadConstraint of the descheduler."""

from collections.abc import Iterator
from pathlib import Path

from compat.k8s_cases import Outcome, judged
from compat.k8s_cluster import judge


def run(path: str | Path) -> Iterator[Outcome]:
    return judged(path, lambda case: judge(case, case["spreadArgs"]))
