"""Recorded flows end in the same state as on a live Karmada control plane."""

from functools import cache
from pathlib import Path

import pytest
from compat.flows import (
    FLOWS,
    AllowedDifference,
    Difference,
    RecordedFlow,
    allowed_differences,
    flow_folders,
    unexpected_differences,
)

from trimtab.api.profile import PROFILES, TRIMTAB

FLOW_FOLDERS = flow_folders([])


@cache
def flow_differences(folder: Path, profile: str) -> list[Difference]:
    """The differences of the flow; replayed once per profile."""
    return RecordedFlow(folder, PROFILES[profile]).run()


@pytest.mark.parametrize("folder", FLOW_FOLDERS, ids=lambda folder: folder.name)
def test_recorded_flow_ends_as_recorded(folder: Path) -> None:
    assert [
        str(difference)
        for difference in unexpected_differences(flow_differences(folder, "upstream"), allowed_differences(), set())
    ] == []


def test_flow_with_altered_recording_fails() -> None:
    flow = RecordedFlow(next(folder for folder in FLOW_FOLDERS if folder.name == "deploy-duplicated"))
    (deployment,) = flow.expect["steps"][0]["state"]["members"]["member1"]["Deployment"]
    deployment["spec"]["replicas"] += 1
    flow.expect["steps"][1]["events"].pop()
    left = list(unexpected_differences(flow.run(), allowed_differences(), set()))
    assert any(".spec.replicas" in difference.path for difference in left)


def test_allowed_difference_covers_only_its_path() -> None:
    (first, *_) = allowed_differences()
    about = "step 0 event Warning|ApplyPolicyFailed|Deployment/ns/web|Apply policy(ns/pp) failed: "
    tail = "|resource-detector"
    assert first.covers(
        Difference(f'{about}resourcebindings.work.karmada.io "web" already exists{tail}', "present", "")
    )
    assert not first.covers(Difference(f"{about}something else{tail}", "present", ""))


@pytest.mark.parametrize("folder", FLOW_FOLDERS, ids=lambda folder: folder.name)
def test_recorded_flow_ends_in_the_same_state_without_a_service_gap_in_trimtab_profile(folder: Path) -> None:
    assert [
        str(difference)
        for difference in unexpected_differences(
            flow_differences(folder, "trimtab"), allowed_differences("trimtab"), set()
        )
    ] == []


@pytest.mark.parametrize("profile", ["upstream", "trimtab"])
def test_every_allowed_difference_is_needed(profile: str) -> None:
    rules, used = allowed_differences(profile), set[AllowedDifference]()
    for folder in FLOW_FOLDERS:
        list(unexpected_differences(flow_differences(folder, profile), rules, used))
    assert [rule.path for rule in rules if rule not in used] == []


@pytest.mark.parametrize("name", ["affinities-fallback", "rebalancer-success"])
def test_service_gap_is_detected_when_old_replicas_are_removed_at_once(name: str) -> None:
    gaps = [d for d in RecordedFlow(FLOWS / name, TRIMTAB.but(replacement_first=False)).run() if " gap " in d.path]
    assert len(gaps) == 1
    assert not any(rule.covers(gaps[0]) for rule in allowed_differences("trimtab"))


def test_allowed_difference_for_added_fields_does_not_cover_recorded_fields() -> None:
    rule = next(
        rule for rule in allowed_differences("trimtab") if rule.added and "aggregatedStatus*.settled" in rule.path
    )
    path = "step 1 host ResourceBinding/ns/web-deployment .status.aggregatedStatus[0].settled"
    assert rule.covers(Difference(path, None, True))
    assert not rule.covers(Difference(path, False, True))
