"""Patches contain only what changed, and only declared fields."""

import pytest
from builders import NOON, binding, status_item
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.kind import to_wire
from trimtab.api.kinds.work import Binding
from trimtab.api.value import Condition, Raw
from trimtab.runtime.effects.commit import (
    UndeclaredWrite,
    check_declared_fields,
    difference,
    is_same_in_patched_fields,
    to_plain_json,
    typed_difference,
    with_undeclared_fields,
    with_version,
    writes_for,
)

json_values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


def merge(target, patch):
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merge(out.get(name), value)
    return out


@given(objects, objects)
def test_patch_turns_before_into_after(before, after) -> None:
    assert merge(before, difference(before, after)) == after


@given(objects)
def test_equal_objects_need_no_patch(same) -> None:
    assert difference(same, same) == {}


PLACED = binding(clusters={"m1": 2, "m2": 0})
SCHEDULED = Condition(type="Scheduled", status="True", reason="Success", last_transition_time=NOON)
STATES = [
    binding(clusters={}),
    PLACED,
    PLACED.but(status=PLACED.status.but(conditions=(SCHEDULED,), scheduler_observed_generation=2)),
    PLACED.but(metadata=PLACED.metadata.but(labels={}, annotations={"a": "b"}, finalizers=())),
    PLACED.but(spec=PLACED.spec.but(placement=None, replicas=0, propagate_deps=True)),
    PLACED.but(
        status=PLACED.status.but(last_scheduled_time=NOON, aggregated_status=(status_item("m1", status={"x": 1}),))
    ),
]


@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("before", STATES)
def test_patch_between_typed_values_turns_one_wire_form_into_the_other(before: Binding, after: Binding) -> None:
    patch = typed_difference(before, after, to_wire(before))
    assert merge(to_wire(before), patch) == to_wire(after)
    assert (not patch) is (before is after)


class CountingClient:
    """A client that counts how often it is asked whether it takes an object with its status."""

    def __init__(self, takes_status: bool) -> None:
        self._takes_status = takes_status
        self.asked = 0

    @property
    def takes_status(self) -> bool:
        self.asked += 1
        return self._takes_status


MOVED, REPORTED = STATES[4], STATES[5]


@pytest.mark.parametrize(
    ("after", "takes_status", "expected", "asked"),
    [
        (PLACED, True, [], 0),
        (MOVED, True, [("", ["spec"])], 0),
        (REPORTED, True, [("status", ["status"])], 0),
        (MOVED.but(status=REPORTED.status), True, [("", ["spec", "status"])], 1),
        (MOVED.but(status=REPORTED.status), False, [("", ["spec"]), ("status", ["status"])], 1),
    ],
)
def test_status_is_a_write_of_its_own_where_the_client_does_not_take_both(
    after: Binding, takes_status: bool, expected: list[tuple[str, list[str]]], asked: int
) -> None:
    client = CountingClient(takes_status)
    writes = writes_for(PLACED, after, to_wire(PLACED), ("ResourceBinding",), (), client)
    assert [(write.subresource, sorted(write.patch)) for write in writes] == expected
    assert client.asked == asked


def test_maps_of_texts_are_not_copied_and_others_are() -> None:
    text = "x" * 5000
    annotated = PLACED.but(metadata=PLACED.metadata.but(annotations={"a": text}))
    assert typed_difference(PLACED, annotated, to_wire(PLACED))["metadata"]["annotations"]["a"] is text
    assert to_plain_json({"a": "b", "c": ("d",)}) == {"a": "b", "c": ["d"]}
    assert to_plain_json({1: "a"}) == {"1": "a"}


def test_undeclared_fields_of_list_items_are_kept() -> None:
    before = [{"name": "a", "replicas": 1}, {"name": "b"}]
    raw = [{"name": "a", "replicas": 1, "note": "theirs"}, {"name": "b"}]
    assert with_undeclared_fields(before, [{"name": "a", "replicas": 2}], raw) == [
        {"name": "a", "replicas": 2, "note": "theirs"}
    ]


def test_removed_declared_field_of_a_list_item_stays_removed() -> None:
    before = [{"name": "a", "replicas": 1}]
    assert with_undeclared_fields(before, [{"name": "a"}], before) == [{"name": "a"}]


def test_patch_carries_the_resource_version_it_was_computed_from() -> None:
    assert with_version({"spec": {"x": 1}}, "7") == {"spec": {"x": 1}, "metadata": {"resourceVersion": "7"}}


def test_undeclared_field_is_rejected() -> None:
    from trimtab.api.kinds.cluster import Cluster

    check_declared_fields({"spec": {"taints": []}}, ("spec.taints",), Cluster, (Cluster,))
    with pytest.raises(UndeclaredWrite):
        check_declared_fields({"spec": {"provider": "x"}}, ("spec.taints",), Cluster, (Cluster,))
    check_declared_fields({"spec": {"provider": "x"}}, ("Cluster",), Cluster, (Cluster,))


def test_conditions_are_declared_by_type_and_annotations_and_finalizers_by_key() -> None:
    from trimtab.api.kinds.cluster import Cluster

    def check(patch: Raw, *declared: str) -> None:
        before = {
            "metadata": {"finalizers": ["a.io/one"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Drained", "status": "False"}]},
        }
        check_declared_fields(patch, declared, Cluster, (Cluster,), before)

    conditions = [{"type": "Ready", "status": "True"}, {"type": "Drained", "status": "True"}]
    check({"status": {"conditions": conditions}}, "status.conditions[Drained]")
    with pytest.raises(UndeclaredWrite, match=r"status.conditions.Drained"):
        check({"status": {"conditions": conditions}}, "status.conditions[Ready]")
    with pytest.raises(UndeclaredWrite, match=r"status.conditions.Ready"):
        check({"status": {"conditions": None}}, "status.conditions[Drained]")
    check({"metadata": {"finalizers": ["b.io/two"]}}, "metadata.finalizers[a.io/one]", "metadata.finalizers[b.io/two]")
    with pytest.raises(UndeclaredWrite, match=r"metadata.finalizers.a.io/one"):
        check({"metadata": {"finalizers": []}}, "metadata.finalizers[b.io/two]")
    check({"metadata": {"annotations": {"x.io/key": "1"}}}, "metadata.annotations[x.io/key]")
    with pytest.raises(UndeclaredWrite, match=r"metadata.annotations.x.io/key2"):
        check({"metadata": {"annotations": {"x.io/key2": "1"}}}, "metadata.annotations[x.io/key]")


def test_objects_are_same_when_no_patched_field_changed() -> None:
    patch = {"status": {"phase": "Ready", "counts": {"seen": 2}}}
    one = {"status": {"phase": "Waiting", "counts": {"seen": 1}}, "spec": {"replicas": 1}}
    assert is_same_in_patched_fields(
        patch, one, {"status": {"phase": "Waiting", "counts": {"seen": 1, "other": 5}}, "spec": {}}
    )
    assert not is_same_in_patched_fields(patch, one, {"status": {"phase": "Waiting", "counts": {"seen": 7}}})
    assert not is_same_in_patched_fields(patch, one, {"status": {"phase": "Gone", "counts": {"seen": 1}}})
