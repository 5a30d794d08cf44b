"""LowNodeUtilization of the descheduler."""

from collections.abc import Iterator
from pathlib import Path

from compat.k8s_cases import Outcome, compare_cases
from compat.k8s_cluster import case_differences


def run(path: str | Path) -> Iterator[Outcome]:
    return compare_cases(path, lambda case: case_differences(case, case["lowArgs"]))
