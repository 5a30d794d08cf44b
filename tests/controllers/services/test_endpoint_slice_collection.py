"""Slices of requested services are collected, those of others and copies are not."""

from typing import Any

from builders import cluster
from views import FakeView

from trimtab.api.kinds.work import Work
from trimtab.api.value import Condition, Raw
from trimtab.controllers.contract import Delete, FollowKind
from trimtab.controllers.services import slices
from trimtab.controllers.services.endpoint_slice_collection import (
    cluster_of_changed_slice,
    clusters_of_changed_work,
    endpoint_slice_collection,
)

FOLLOWED = ("m1", slices.SLICE_VERSION, slices.SLICE_KIND)


def request(kind: str = "MultiClusterService", **status: Any) -> Work:
    manifest = {"apiVersion": "x/v1", "kind": kind, "metadata": {"namespace": "shop", "name": "web"}}
    work = slices.reporting_work(manifest, "m1", {})
    return work.but(status=work.status.but(**status)) if status else work


def raw_slice(name: str, service: str = "web", **labels: str) -> Raw:
    own = {slices.SERVICE_LABEL: service, **labels}
    endpoints = [{"addresses": ["10.0.0.1"]}]
    metadata = {"name": name, "namespace": "shop", "labels": own, "uid": "u"}
    return {"kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4", "endpoints": endpoints}


def reconcile(*works: Work, found: list[Raw] | None = None, agent: str = "") -> list[Any]:
    followed = {FOLLOWED: found} if found is not None else {}
    view = FakeView([cluster("m1"), *works], followed=followed, settings={"agent": agent})
    return list(endpoint_slice_collection(cluster("m1"), view))


def test_kind_is_followed_only_when_a_service_asks_for_it() -> None:
    assert reconcile() == []
    assert reconcile(request()) == [FollowKind("m1", slices.SLICE_VERSION, slices.SLICE_KIND)]


def test_slices_of_the_service_are_reported_without_what_belongs_to_the_cluster() -> None:
    copies = raw_slice("copy", **{slices.MANAGED_BY: slices.DISPATCHER})
    (work,) = reconcile(request(), found=[raw_slice("web-1"), raw_slice("api-1", "api"), copies])
    (manifest,) = work.spec.workload.manifests
    assert manifest["metadata"] == {"name": "web-1", "namespace": "shop", "labels": {slices.SERVICE_LABEL: "web"}}
    assert work.spec.suspend_dispatching
    assert work.metadata.labels[slices.SERVICE_NAME] == "web"
    assert work.metadata.labels[slices.COLLECTED_BY] == "MultiClusterService"


def test_slice_that_two_kinds_ask_for_is_one_work_and_lasts_as_long_as_one_of_them() -> None:
    applied = Condition(type="Applied", status="True", reason="R", message="", last_transition_time=None)
    export = request("ServiceExport", conditions=(applied,))
    (work,) = reconcile(request(), export, found=[raw_slice("web-1")])
    assert work.metadata.labels[slices.COLLECTED_BY] == "MultiClusterService.ServiceExport"
    (after,) = reconcile(export, work, found=[raw_slice("web-1")])
    assert slices.SERVICE_NAME not in after.metadata.labels
    assert after.metadata.labels[slices.EXPORT_NAME] == "web"
    assert reconcile(request("ServiceExport"), work) == [Delete(work)]  # it is not applied: nothing asks any more


def test_works_of_vanished_slices_are_deleted_and_settled_ones_stay() -> None:
    (work,) = reconcile(request(), found=[raw_slice("web-1")])
    assert reconcile(request(), work, found=[]) == [Delete(work)]
    assert reconcile(request(), work, found=[raw_slice("web-1")]) == []


def test_agent_of_another_cluster_collects_nothing() -> None:
    assert reconcile(request(), found=[raw_slice("web-1")], agent="m2") == []


def test_requests_and_slices_wake_their_cluster() -> None:
    view = FakeView([request()])
    expected = [("clusters.cluster.karmada.io", "", "m1")]
    assert list(clusters_of_changed_work(None, request(), view)) == expected
    assert list(clusters_of_changed_work(request(), request(), view)) == []
    assert list(cluster_of_changed_slice("m1", None, raw_slice("web-1"), view)) == expected
    assert list(cluster_of_changed_slice("m1", None, {"kind": "Pod"}, view)) == []
    assert list(cluster_of_changed_slice("m2", None, raw_slice("web-1"), view)) == []
