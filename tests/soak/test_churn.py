"""Nothing in the process and no file grows while workloads come and go: 30 days with EFFORT=20."""

from pathlib import Path
from types import ModuleType

import pytest

from properties.hypothesis_settings import EFFORT
from soak.churn import SMALL_BOUNDS, run_days
from soak.growth import growing

DAYS_PER_EFFORT = 1.5
MIN_DAYS = 6
"""The caches are full after two; growth is found by comparing days."""
APPS_PER_DAY = 2


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, name, _ in SMALL_BOUNDS])
def test_bound_that_the_run_makes_smaller_exists(module: ModuleType, name: str) -> None:
    assert hasattr(module, name)


@pytest.mark.skipif(EFFORT == 1, reason="computes for minutes; make soak runs it")
def test_memory_and_store_do_not_grow_over_days_of_churn(tmp_path: Path) -> None:
    points = run_days(max(MIN_DAYS, int(EFFORT * DAYS_PER_EFFORT)), APPS_PER_DAY, tmp_path)
    assert growing(points[2:]) == []
