"""Decisions about manifests, without the output of `trimtab decide`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from trimtab.api.profile import TRIMTAB
from trimtab.dryrun.decisions import SELECTED, DryRunDecision, TargetOutcome, decide_manifests, summary_text
from trimtab.dryrun.manifests import read_manifests
from trimtab.errors import InputError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def node(name: str, cpu: str = "2") -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def decide(folder: Path, *objects: dict[str, Any]) -> list[DryRunDecision]:
    (folder / "f.yaml").write_text(yaml.safe_dump_all(objects))
    return decide_manifests(read_manifests([str(folder / "f.yaml")]), now=NOW, profile=TRIMTAB)


def test_pods_are_decided_by_priority_and_use_up_capacity(tmp_path: Path) -> None:
    low, high = pod("low", "2", priority=1), pod("high", "2", priorityClassName="system-node-critical")
    first, second = decide(tmp_path, node("n1"), low, high)
    assert (first.subject, first.message) == ("Pod default/high", "node n1")
    assert (second.subject, second.placed) == ("Pod default/low", False)


def test_tie_between_nodes_is_reported(tmp_path: Path) -> None:
    (decision,) = decide(tmp_path, node("n1"), node("n2"), pod("p", "1"))
    assert decision.message == "node n1, tied with 1 more"


def test_manifests_without_anything_to_decide_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing to decide: the files contain Node"):
        decide(tmp_path, node("n1"))


def test_summary_counts_replicas_and_clusters() -> None:
    targets = [TargetOutcome(name="a", outcome=SELECTED, replicas=1), TargetOutcome(name="b", outcome="NotNeeded")]
    assert summary_text(targets) == "1 replica in 1 cluster"
    assert summary_text([TargetOutcome(name=name, outcome=SELECTED) for name in "ab"]) == "one copy each in 2 clusters"
