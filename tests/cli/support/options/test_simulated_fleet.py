"""Options for simulated members."""

from pathlib import Path

import pytest

from trimtab.cli.support.options.simulated_fleet import plan_from_options


def test_fleet_is_planned_from_options() -> None:
    counted = plan_from_options(None, 5, 2, no_fleet=False)
    assert counted is not None
    assert (len(counted.members), counted.node_count) == (5, 10)
    assert plan_from_options(None, None, None, no_fleet=True).members == ()  # type: ignore[union-attr]
    assert plan_from_options(None, None, None, no_fleet=False) is None
    with pytest.raises(Exception, match="give only one of"):
        plan_from_options(Path("fleet.yaml"), 5, None, no_fleet=False)
