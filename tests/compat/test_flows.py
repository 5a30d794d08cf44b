"""Recorded flows end in the same state as on a live Karmada control plane."""

from functools import cache
from pathlib import Path

import pytest
from compat.flows import FLOWS, Difference, Exemption, Flow, exemptions, folders, judge

from trimtab.api.profile import PROFILES, TRIMTAB

FOLDERS = folders([])


@cache
def found(folder: Path, profile: str) -> list[Difference]:
    """The differences of the flow; replayed once per profile."""
    return Flow(folder, PROFILES[profile]).run()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_recorded_flow_ends_as_recorded(folder: Path) -> None:
    assert [str(difference) for difference in judge(found(folder, "upstream"), exemptions(), set())] == []


def test_flow_with_altered_recording_fails() -> None:
    flow = Flow(next(folder for folder in FOLDERS if folder.name == "deploy-duplicated"))
    (deployment,) = flow.expect["steps"][0]["state"]["members"]["member1"]["Deployment"]
    deployment["spec"]["replicas"] += 1
    flow.expect["steps"][1]["events"].pop()
    left = list(judge(flow.run(), exemptions(), set()))
    assert any(".spec.replicas" in difference.path for difference in left)


def test_allowed_difference_covers_only_its_path() -> None:
    (first, *_) = exemptions()
    about = "step 0 event Warning|ApplyPolicyFailed|Deployment/ns/web|Apply policy(ns/pp) failed: "
    tail = "|resource-detector"
    assert first.covers(
        Difference(f'{about}resourcebindings.work.karmada.io "web" already exists{tail}', "present", "")
    )
    assert not first.covers(Difference(f"{about}something else{tail}", "present", ""))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_recorded_flow_ends_in_the_same_state_without_a_service_gap_in_trimtab_profile(folder: Path) -> None:
    assert [str(difference) for difference in judge(found(folder, "trimtab"), exemptions("trimtab"), set())] == []


@pytest.mark.parametrize("profile", ["upstream", "trimtab"])
def test_every_allowed_difference_is_needed(profile: str) -> None:
    rules, used = exemptions(profile), set[Exemption]()
    for folder in FOLDERS:
        list(judge(found(folder, profile), rules, used))
    assert [rule.path for rule in rules if rule not in used] == []


@pytest.mark.parametrize("name", ["affinities-fallback", "rebalancer-success"])
def test_service_gap_is_detected_when_old_replicas_are_removed_at_once(name: str) -> None:
    gaps = [d for d in Flow(FLOWS / name, TRIMTAB.but(replacement_first=False)).run() if " gap " in d.path]
    assert len(gaps) == 1
    assert not any(rule.covers(gaps[0]) for rule in exemptions("trimtab"))


def test_allowed_difference_for_added_fields_does_not_cover_recorded_fields() -> None:
    rule = next(rule for rule in exemptions("trimtab") if rule.added and "aggregatedStatus*.settled" in rule.path)
    path = "step 1 host ResourceBinding/ns/web-deployment .status.aggregatedStatus[0].settled"
    assert rule.covers(Difference(path, None, True))
    assert not rule.covers(Difference(path, False, True))
