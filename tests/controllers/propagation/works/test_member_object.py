"""The manifest beside the object that a member has."""

from builders import deployment
from views import FakeView

from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.propagation.works.member_object import (
    SENT,
    SETTLED,
    comparable,
    fingerprint,
    matches_last_write,
    with_member_fields,
)
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.prune import prune

KEY = ("m1", well_known.ref_without_uid(deployment()))


def in_member(**metadata: object) -> Raw:
    return deployment(**{"uid": "there", "resourceVersion": "40", **metadata})


def test_the_version_and_the_finalizers_of_the_member_are_kept() -> None:
    wanted = with_member_fields(deployment(), in_member(finalizers=["mine/keep"]), Interpreter.of())
    assert wanted["metadata"]["resourceVersion"] == "40"
    assert wanted["metadata"]["finalizers"] == ["mine/keep"]


def test_labels_that_were_applied_before_go_and_those_of_the_member_stay() -> None:
    record = {well_known.MANAGED_LABELS: "old,app"}
    seen = in_member(labels={"old": "1", "local": "2", "app": "0"}, annotations=record)
    wanted = with_member_fields(deployment(labels={"app": "web"}), seen, Interpreter.of())
    assert wanted["metadata"]["labels"] == {"local": "2", "app": "web"}


def test_defaults_that_the_member_added_after_the_last_write_are_no_difference() -> None:
    wanted, view = deployment(), FakeView()
    view.memory[SENT, KEY] = fingerprint(prune(wanted))
    defaulted = in_member()
    defaulted["spec"] = {**defaulted["spec"], "progressDeadlineSeconds": 600}
    same, remember = matches_last_write(*KEY, wanted, defaulted, view)
    assert same
    assert remember is not None
    view.memory.keep([remember])
    assert matches_last_write(*KEY, wanted, defaulted, view) == (True, None)
    changed = {**defaulted, "spec": {**defaulted["spec"], "replicas": 99}}
    assert matches_last_write(*KEY, wanted, changed, view)[0] is False, "another writer changed it afterwards"


def test_without_a_write_of_this_process_a_difference_is_written() -> None:
    other = in_member()
    other["spec"] = {**other["spec"], "replicas": 99}
    assert matches_last_write(*KEY, deployment(), other, FakeView()) == (False, None)
    view = FakeView()
    view.memory[SENT, KEY] = 1
    view.memory[SETTLED, KEY] = (1, 1)
    assert matches_last_write(*KEY, deployment(), in_member(), view)[0] is True


def test_the_mark_of_the_control_plane_alone_is_no_reason_for_a_write() -> None:
    marked = deployment(annotations={well_known.CONTROL_PLANE: "own", "note": "a"})
    assert matches_last_write(*KEY, marked, in_member(annotations={"note": "a"}), FakeView())[0] is True
    assert matches_last_write(*KEY, marked, in_member(annotations={"note": "b"}), FakeView())[0] is False
    foreign = in_member(annotations={well_known.CONTROL_PLANE: "other", "note": "a"})
    assert matches_last_write(*KEY, marked, foreign, FakeView())[0] is False


def test_the_spec_of_a_namespace_belongs_to_its_member() -> None:
    wanted = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    seen = {**wanted, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    assert matches_last_write("m1", well_known.ref_without_uid(wanted), wanted, seen, FakeView())[0] is True
    empty = {**wanted, "spec": {}}
    assert matches_last_write("m1", well_known.ref_without_uid(wanted), empty, seen, FakeView())[0] is True


def test_a_later_write_is_settled_again() -> None:
    """What the member made of an earlier write says nothing about this one."""
    wanted, view = deployment(), FakeView()
    view.memory[SENT, KEY] = fingerprint(prune(wanted))
    view.memory[SETTLED, KEY] = (1, 2)
    defaulted = in_member()
    defaulted["spec"] = {**defaulted["spec"], "progressDeadlineSeconds": 600}
    same, remember = matches_last_write(*KEY, wanted, defaulted, view)
    assert same
    assert remember is not None
    assert remember.value == (fingerprint(prune(wanted)), fingerprint(prune(defaulted)))


def test_an_object_without_defaults_is_settled_once() -> None:
    wanted, view = deployment(), FakeView()
    view.memory[SENT, KEY] = sent = fingerprint(prune(wanted))
    same, remember = matches_last_write(*KEY, wanted, in_member(), view)
    assert same
    assert remember is not None
    assert remember.value == (sent, sent)
    view.memory.keep([remember])
    assert matches_last_write(*KEY, wanted, in_member(), view) == (True, None)
    view.memory[SETTLED, KEY] = (1, 1)
    assert matches_last_write(*KEY, wanted, in_member(), view)[1] is not None


def test_the_spec_of_other_objects_does_not_belong_to_the_member() -> None:
    wanted = {**deployment(), "kind": "Widget"}
    del wanted["spec"]
    assert "spec" not in comparable(wanted, in_member())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    stated = {**namespace, "spec": {"finalizers": ["mine"]}}
    assert comparable(stated, {**namespace, "spec": {"finalizers": ["kubernetes"]}})["spec"] == {"finalizers": ["mine"]}
    assert "spec" not in comparable(namespace, namespace)
