"""The controllers write in a flow or story what was recorded, in the same order.

`make writes` compares all of them; these tests run a few representative ones.
"""

import pytest
from compat.writes import RecordedRun, first_difference, mask_versions, recorded_writes, runs, writes_of

REPRESENTATIVES = ["rebalancer-success", "taint-noexecute", "duplicated", "drain-a-cluster", "manifestwork"]


@pytest.mark.parametrize("run", list(runs(REPRESENTATIVES)), ids=lambda run: f"{run.profile}-{run.name}")
def test_writes_are_as_recorded(run: RecordedRun) -> None:
    assert not first_difference(recorded_writes(run), writes_of(run))


def test_every_flow_and_story_is_recorded_in_both_profiles() -> None:
    assert [run for run in runs([]) if not run.recording.exists()] == []


def test_a_changed_write_is_reported_with_its_number() -> None:
    assert first_difference(["a", "b"], ["a", "c"]).startswith("write 2")


def test_missing_and_additional_writes_are_reported() -> None:
    assert "first missing: b" in first_difference(["a", "b"], ["a"])
    assert "first additional: b" in first_difference(["a"], ["a", "b"])


def test_versions_are_masked_at_every_depth() -> None:
    masked = mask_versions({"metadata": {"resourceVersion": "7", "name": "web"}, "items": [{"resourceVersion": "8"}]})
    assert masked == {"metadata": {"resourceVersion": "*", "name": "web"}, "items": [{"resourceVersion": "*"}]}
