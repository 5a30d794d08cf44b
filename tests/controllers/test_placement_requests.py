"""Requests of bindings in affinity groups know where the others of their group are."""

from typing import Any

from builders import binding
from views import FakeView

from trimtab.api.kinds.work import ResourceBinding, WorkloadAffinityGroups
from trimtab.controllers.placement_requests import affinity_groups_of, neighbours_of, request_for


def grouped(name: str, clusters: dict[str, int], **groups: str) -> ResourceBinding:
    return binding(name, clusters=clusters, workload_affinity_groups=WorkloadAffinityGroups(**groups))


def test_groups_of_a_binding_are_those_of_its_namespace() -> None:
    both = grouped("a", {}, affinity_group="app=x", anti_affinity_group="app=x")
    assert list(affinity_groups_of(both)) == ["demo with app=x", "demo apart from app=x"]
    assert list(affinity_groups_of(binding("b"))) == []


def test_request_has_the_clusters_of_the_group() -> None:
    other = grouped("other", {"m1": 1}, affinity_group="g", anti_affinity_group="h")
    together, apart = grouped("a", {}, affinity_group="g"), grouped("b", {}, anti_affinity_group="h")
    view = FakeView([other, together, apart, grouped("c", {"m3": 1}, affinity_group="else")])
    assert [one.name for one in neighbours_of(together, view)] == ["a-deployment", "other-deployment"]
    assert request_for(together, view).affinity_clusters == {"m1"}
    assert request_for(apart, view).anti_affinity_clusters == {"m1"}


def test_groups_are_ignored_where_the_feature_is_off() -> None:
    other, apart = grouped("other", {"m1": 1}, anti_affinity_group="h"), grouped("b", {}, anti_affinity_group="h")
    off: Any = {"workload-affinity": False}
    assert request_for(apart, FakeView([other, apart], settings=off)).anti_affinity_clusters == frozenset()
