"""A view of fixed objects for controllers."""

from datetime import UTC, datetime

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import TRIMTAB
from trimtab.api.value import Meta
from trimtab.controllers.contract import NOT_FETCHED, Ref
from trimtab.dryrun.documents import Document
from trimtab.dryrun.manifest import Manifest
from trimtab.dryrun.static_view import StaticView


def config_map(name: str, namespace: str) -> Manifest:
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
    return Manifest(raw, Document(raw, "", 1), None)


CLUSTERS = [Cluster(metadata=Meta(name=name)) for name in ("b", "a")]
VIEW = StaticView(
    [config_map("x", "one"), config_map("x", "two")],
    now=datetime(2030, 1, 1, tzinfo=UTC),
    profile=TRIMTAB,
    more=CLUSTERS,
)


def test_typed_objects_are_ordered_by_name() -> None:
    assert [cluster.name for cluster in VIEW.all(Cluster)] == ["a", "b"]
    assert VIEW.get(Cluster, "", "b") is CLUSTERS[0]
    assert VIEW.get(Cluster, "", "c") is None


def test_untyped_objects_are_found_by_kind_and_namespace() -> None:
    found = VIEW.raw(Ref("v1", "ConfigMap", "two", "x"))
    assert found is not None
    assert found["metadata"]["namespace"] == "two"
    assert len(VIEW.raws("v1", "ConfigMap")) == 2
    assert VIEW.raws("v1", "Secret") == []


def test_members_are_not_visible() -> None:
    assert VIEW.member("a", Ref("v1", "ConfigMap", "two", "x")) is NOT_FETCHED
