"""The write that a manifest needs in its member."""

from datetime import timedelta

import orjson
import pytest
from builders import NOON, cluster, deployment
from views import FakeView

from controllers.propagation.works.test_execute import object_in_member, work_for
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import WorkStatus
from trimtab.api.value import Condition, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ensure, Fetch
from trimtab.controllers.propagation.works.member_object import SENT, SETTLED, fingerprint
from trimtab.controllers.propagation.works.work_delivery import (
    FETCHED,
    READ_INTERVAL_SECONDS,
    ManifestDelivery,
    apply_ignore_rules,
    contains,
    plan_delivery,
)
from trimtab.interpret.prune import prune


def delivery(seen: Raw | None, strategy: str = "", view: FakeView | None = None) -> ManifestDelivery:
    work = work_for()
    manifest = work.spec.workload.manifests[0]
    if strategy:
        manifest = well_known.with_metadata(manifest, labels={}, annotations={well_known.UPDATE_STRATEGY: strategy})
    view = view or FakeView()
    view.members = {("m1", well_known.ref_without_uid(manifest)): seen}
    return plan_delivery(work, manifest, cluster("m1"), view)


def test_a_missing_object_is_created() -> None:
    assert isinstance(delivery(None).write, Ensure)


def test_an_object_that_nobody_manages_is_not_overwritten() -> None:
    found = delivery(deployment())
    assert found.write is None
    assert "already exists" in found.problem


def test_an_object_as_wanted_is_not_written() -> None:
    assert delivery(object_in_member(work_for())).write is None


def test_a_changed_object_is_replaced_for_the_version_that_was_seen() -> None:
    seen = object_in_member(work_for())
    write = delivery({**seen, "spec": {**seen["spec"], "replicas": 99}}).write
    assert write is not None
    assert write.replace
    assert write.seen is not None


def test_a_write_that_changes_nothing_is_checked_again_once() -> None:
    view, seen = FakeView(), object_in_member(work_for())
    seen = {**seen, "spec": {**seen["spec"], "replicas": 99}}
    write = delivery(seen, view=view).write
    assert write is not None
    assert write.recheck_if_unchanged
    key = ("m1", well_known.ref_without_uid(write.wanted))
    view.memory[SENT, key] = fingerprint(prune(write.wanted))
    view.memory[SETTLED, key] = (view.memory[SENT, key], 1)
    again = delivery(seen, view=view).write
    assert again is not None
    assert not again.recheck_if_unchanged


@pytest.mark.parametrize("strategy", ["CreateOnly", "Completed"])
def test_what_is_created_only_or_completed_is_not_updated(strategy: str) -> None:
    seen = object_in_member(work_for())
    assert delivery({**seen, "spec": {}}, strategy).write is None


def test_what_is_only_read_is_never_written_and_read_at_intervals() -> None:
    view = FakeView()
    first = delivery(None, "ReadOnly", view)
    assert first.write is None
    assert isinstance(first.fetch, Fetch)
    assert first.remember is not None
    view.memory.keep([first.remember])
    again = delivery(None, "ReadOnly", view)
    assert again.fetch is None
    assert "does not exist" in again.problem
    view.steady_now = NOON + timedelta(seconds=READ_INTERVAL_SECONDS)
    assert delivery(None, "ReadOnly", view).fetch is not None
    assert FETCHED in {topic for topic, _ in view.memory}


def test_server_side_apply_writes_only_what_is_missing() -> None:
    seen = object_in_member(work_for())
    assert delivery({**seen, "status": {"readyReplicas": 1}}, "ServerSideApply").write is not None, "the annotation"
    marked = well_known.with_metadata(seen, labels={}, annotations={well_known.UPDATE_STRATEGY: "ServerSideApply"})
    assert delivery({**marked, "status": {"readyReplicas": 1}}, "ServerSideApply").write is None
    write = delivery({**marked, "spec": {**marked["spec"], "replicas": 99}}, "ServerSideApply").write
    assert write is not None
    assert (write.apply_as, write.force) == ("work-agent", False)


def test_contained_fields_may_have_neighbours_and_lists_any_order() -> None:
    assert contains({"a": 1, "b": [{"n": 2, "x": 0}, {"n": 1}]}, {"b": [{"n": 1}, {"n": 2}]})
    assert not contains({"a": 1}, {"a": 2})
    assert not contains({"a": [1]}, {"a": [1, 2]})
    assert not contains(None, {"a": {}})


def test_an_applied_object_is_read_before_it_is_written() -> None:
    work = work_for()
    applied = work.but(status=WorkStatus(conditions=(Condition(type="Applied", status="True"),)))
    manifest = work.spec.workload.manifests[0]
    found = plan_delivery(applied, manifest, cluster("m1"), FakeView())
    assert (found.write, found.fetch) == (None, Fetch("m1", well_known.ref_without_uid(manifest)))
    assert isinstance(plan_delivery(work, manifest, cluster("m1"), FakeView()).write, Ensure)


@pytest.mark.parametrize(("type_", "status", "read"), [("Applied", "False", False), ("Dispatching", "True", False)])
def test_only_a_work_that_reports_its_objects_as_applied_reads_them_first(type_: str, status: str, read: bool) -> None:
    work = work_for().but(status=WorkStatus(conditions=(Condition(type=type_, status=status),)))
    found = plan_delivery(work, work.spec.workload.manifests[0], cluster("m1"), FakeView())
    assert (found.fetch is not None) is read
    assert isinstance(found.write, Ensure)


def test_namespace_of_another_control_plane_is_used_and_not_written() -> None:
    labels = {well_known.MANAGED: "true"}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}}
    theirs = well_known.with_metadata(manifest, labels={"extra": "1"}, annotations={well_known.CONTROL_PLANE: "other"})
    host = Namespace(metadata=Meta(name="kube-system", uid="own-id"))
    view = FakeView([host], members={("m1", well_known.ref_without_uid(manifest)): theirs})
    found = plan_delivery(work_for(), manifest, cluster("m1"), view)
    assert (found.write, found.problem) == (None, "")


def test_ignored_fields_of_a_changed_manifest_are_written_unless_they_are_the_members_once_present() -> None:
    rule = {"condition": "OnSpokeChange", "jsonPaths": [".spec.replicas"]}
    seen = deployment(replicas=9, annotations={well_known.CONFIG_HASH: "old"})
    for condition, config_hash, replicas in (
        ("OnSpokeChange", "new", 3),
        ("OnSpokeChange", "old", 9),
        ("OnSpokePresent", "new", 9),
    ):
        rules = orjson.dumps([rule | {"condition": condition}]).decode()
        annotations = {well_known.IGNORE_FIELDS: rules, well_known.CONFIG_HASH: config_hash}
        assert apply_ignore_rules(deployment(annotations=annotations), seen)["spec"]["replicas"] == replicas
