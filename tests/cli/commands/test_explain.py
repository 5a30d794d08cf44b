"""`trimtab explain`: the lines about a workload, and the kinds of objects that it explains."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from trimtab.api.kinds.work import ResourceBinding
from trimtab.cli.commands.explain import (
    cluster_name_of,
    cluster_row,
    find_binding,
    placement_name_of,
    pod_name_of,
    reason_text,
    record_lines,
    report_lines,
    sort_key,
    time_lines,
    together,
)
from trimtab.decide.explanation import AffinityGroupExplanation, ClusterExplanation, ClusterRejection, Explanation
from trimtab.errors import InputError

SELECTED = ClusterExplanation(name="m2", replicas=3, fits=9, selected=True, scores={"ClusterLocality": 100})
UNUSED = ClusterExplanation(name="m3", selected=True)
UNSELECTED = ClusterExplanation(name="m1")
REJECTED = ClusterExplanation(
    name="m0", refused=ClusterRejection(plugin="TaintToleration", code="Taint", message="it is tainted")
)


def binding(status: dict[str, Any] | None = None, **spec: Any) -> ResourceBinding:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}
    raw = {
        "metadata": {"name": "web-deployment", "namespace": "default"},
        "spec": {"resource": resource, "replicas": 3, "clusters": [{"name": "m2", "replicas": 3}], **spec},
        "status": status or {},
    }
    return msgspec.convert(raw, ResourceBinding, strict=False)


def explanation(**fields: Any) -> Explanation:
    return Explanation(
        ok=True, message="", strategy="Duplicated", mode="Steady", clusters=(SELECTED, REJECTED), **fields
    )


def test_pods_are_named_as_in_kubectl() -> None:
    assert (pod_name_of("po/web-0"), pod_name_of("pods/web-0"), pod_name_of("deploy/web")) == ("web-0", "web-0", "")


def test_clusters_and_placements_are_named_by_kind() -> None:
    assert (cluster_name_of("cluster/m1"), cluster_name_of("deploy/web")) == ("m1", "")
    assert (placement_name_of("Placement/cheap"), placement_name_of("cluster/m1")) == ("cheap", "")


def test_name_without_a_kind_is_refused() -> None:
    with pytest.raises(InputError, match="'web': expected KIND/NAME, such as deploy/web"):
        asyncio.run(find_binding(None, "web", "default"))  # type: ignore[arg-type]


def test_selected_affinity_group_is_marked() -> None:
    groups = (
        AffinityGroupExplanation(name="dc-shanghai", message="no cluster is feasible"),
        AffinityGroupExplanation(name="dc-beijing"),
    )
    text = list(report_lines(binding(), explanation(groups=groups), ()))
    assert text[0] == "Deployment default/web (3 replicas) is placed in m2 (3)."
    assert "Affinity group dc-shanghai: no cluster is feasible." in text
    assert "Affinity group dc-beijing: selected." in text


def test_holds_and_stalled_conditions_are_shown() -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "Budget", "message": "the budget is used up"}
    scheduled = {"type": "Scheduled", "status": "True", "reason": "Success", "message": "scheduled"}
    status = {"holds": [{"cluster": "m1", "replicas": 2}], "conditions": [stalled, scheduled]}
    text = list(report_lines(binding(status), explanation(), ()))
    assert "Held in m1: the replacement is not ready yet." in text
    assert "Stalled: the budget is used up" in text
    assert not [line for line in text if line.startswith("Scheduled")]


def test_validity_is_shown_when_time_limits_it() -> None:
    text = list(report_lines(binding(), explanation(valid_until=datetime(2030, 1, 1, tzinfo=UTC)), ()))
    assert text[-1] == "Valid until 2030-01-01 00:00:00 UTC, unless the input changes."


def test_remembered_decision_says_when_it_was_made() -> None:
    made = explanation(decided_at=datetime(2026, 7, 29, 10, 15, 30, tzinfo=UTC))
    assert list(time_lines(made)) == ["Decided on 2026-07-29 at 10:15:30 UTC."]
    assert list(time_lines(explanation())) == []


def test_selected_clusters_come_first_and_rejected_ones_last() -> None:
    ordered = sorted([REJECTED, UNSELECTED, UNUSED, SELECTED], key=sort_key)
    assert [story.name for story in ordered] == ["m2", "m3", "m1", "m0"]


def test_every_cluster_has_a_reason() -> None:
    assert cluster_row(SELECTED) == ("m2", "3", "-", "9", "100", "selected")
    assert cluster_row(REJECTED)[4:] == ("-", "TaintToleration: it is tainted")
    assert reason_text(UNUSED) == "feasible, but got no replicas"
    assert reason_text(UNSELECTED) == "feasible, but not selected by the spread constraints"


def test_record_in_the_binding_lists_rejected_clusters() -> None:
    refused = [{"filter": "TaintToleration", "message": "it is tainted", "count": 3, "clusters": ["a", "b"]}]
    record = {
        "mode": "Steady",
        "divisionStrategy": "by weight",
        "totalClusters": 5,
        "feasibleClusters": 2,
        "rejected": refused,
    }
    text = list(record_lines(binding({"decision": record})))
    assert text == [
        "Decided (Steady): by weight; 2 of 5 clusters were feasible.",
        "Rejected a, b and 1 more: it is tainted (TaintToleration).",
        "This is the decision that would be made now:",
    ]
    assert list(record_lines(binding())) == [
        "The last decision is not available. This is the decision that would be made now:"
    ]


def test_reports_of_several_namespaces_are_one_document() -> None:
    assert msgspec.json.decode(together(['{"a":1}', '{"a":2}'], "json")) == [{"a": 1}, {"a": 2}]
    assert together(["a: 1", "a: 2"], "yaml") == "a: 1\n---\na: 2"
    assert together(["x", "y"], "name") == "x\ny"
    assert together(["x", "y"], "table") == "x\n\ny"
