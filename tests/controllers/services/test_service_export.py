"""Imported slices on the host equal the collected ones of all clusters."""

from typing import Any

import msgspec
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.networking import ServiceExport
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.controllers.contract import Delete, Ensure
from trimtab.controllers.services import slices
from trimtab.controllers.services.service_export import exports_of_changed_work, service_export, sync_imported

EXPORT = msgspec.convert({"metadata": {"namespace": "shop", "name": "web"}}, ServiceExport)


def collected(cluster: str, endpoints: int = 1) -> Work:
    manifest = {"metadata": {"name": "web-x", "namespace": "shop"}, "endpoints": [{}] * endpoints}
    labels = {slices.EXPORT_NAMESPACE: "shop", slices.EXPORT_NAME: "web", slices.COLLECTED_BY: "ServiceExport"}
    return slices.reporting_work(slices.slice_manifest(manifest), cluster, labels)


def reconcile(*works: Work, present: tuple[Raw, ...] = ()) -> list[Any]:
    return list(service_export(EXPORT, FakeView([EXPORT, *works], raws=present)))


def test_slices_of_all_clusters_are_imported_under_the_derived_service() -> None:
    effects = reconcile(collected("m1"), collected("m2"))
    wanted = [one.wanted for one in effects if isinstance(one, Ensure)]
    assert [one["metadata"]["name"] for one in wanted] == ["imported-m1-web-x", "imported-m2-web-x"]
    assert {one["metadata"]["labels"][slices.SERVICE_LABEL] for one in wanted} == {"derived-web"}


def test_imported_slices_follow_changes_and_go_with_their_source() -> None:
    (created,) = (one.wanted for one in reconcile(collected("m1")))
    assert reconcile(collected("m1"), present=(created,)) == []
    (changed,) = reconcile(collected("m1", endpoints=2), present=(created,))
    assert len(changed.wanted["endpoints"]) == 2
    (gone,) = reconcile(present=(created,))
    assert isinstance(gone, Delete)
    (gone,) = sync_imported(key_of(EXPORT), FakeView([], raws=(created,)))
    assert isinstance(gone, Delete)


def test_collected_slices_wake_their_export() -> None:
    assert list(exports_of_changed_work(None, collected("m1"), FakeView())) == [key_of(EXPORT)]
    assert list(exports_of_changed_work(collected("m1"), None, FakeView())) == [key_of(EXPORT)]
