"""What a live Karmada control plane left behind, we leave behind."""

import pytest
from compat.flows import Difference, Flow, exemptions, folders, judge

FOLDERS = folders([])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_flow_ends_as_it_was_recorded(folder) -> None:
    assert [str(difference) for difference in judge(Flow(folder).run(), exemptions(), set())] == []


def test_a_flow_whose_recording_is_altered_fails() -> None:
    flow = Flow(next(folder for folder in FOLDERS if folder.name == "deploy-duplicated"))
    (deployment,) = flow.expect["steps"][0]["state"]["members"]["member1"]["Deployment"]
    deployment["spec"]["replicas"] += 1
    flow.expect["steps"][1]["events"].pop()
    found = list(judge(flow.run(), exemptions(), set()))
    assert any(".spec.replicas" in difference.path for difference in found)


def test_an_exemption_covers_only_what_it_names() -> None:
    (first, *_) = exemptions()
    about = "step 0 event Warning|ApplyPolicyFailed|Deployment/ns/web|Apply policy(ns/pp) failed: "
    tail = "|resource-detector"
    assert first.covers(Difference(f'{about}resourcebindings.work.karmada.io "web" already exists{tail}', "told", ""))
    assert not first.covers(Difference(f"{about}something else{tail}", "told", ""))
