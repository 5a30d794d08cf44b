"""Kind declarations: names, lookup, conversion and the wire form."""

import pytest

from trimtab.api.kind import Kind, find_kind, key_of, kind_of, kinds, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key, Meta, Object

BINDINGS = kind_of(ResourceBinding)


def test_conversion_to_the_same_version_returns_the_same_object() -> None:
    raw = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
    assert BINDINGS.convert(raw, "v1alpha2") is raw


def test_all_versions_are_found_as_the_same_kind() -> None:
    assert find_kind("work.karmada.io/v1alpha1", "ResourceBinding") is BINDINGS


def test_names_that_are_not_given_are_derived() -> None:
    kind = Kind(Object, group="", version="v1", name="Thing", plural="things", short=["th"])
    assert (kind.id, kind.api_version, kind.singular, kind.short) == ("things", "v1", "thing", ("th",))


def test_normalizers_run_before_the_defaults() -> None:
    def normalize(raw: dict) -> dict:
        return {**raw, "order": [*raw["order"], "normalize"]}

    def default(raw: dict) -> dict:
        return {**raw, "order": [*raw["order"], "default"]}

    kind = Kind(
        Object, group="g", version="v1", name="Thing", plural="things", normalizers=(normalize,), defaults=(default,)
    )
    raw = {"order": []}
    for function in kind.defaults:
        raw = function(raw)
    assert raw["order"] == ["normalize", "default"]


def test_kinds_compare_by_identity() -> None:
    one, other = (Kind(Object, group="g", version="v1", name="Thing", plural="things") for _ in range(2))
    assert one != other
    assert len({one, other}) == 2


def test_wire_form_has_api_version_kind_and_lists() -> None:
    cluster = Cluster(metadata=Meta(name="m1", finalizers=("f",)))
    assert to_wire(cluster)["apiVersion"] == "cluster.karmada.io/v1alpha1"
    assert to_wire(cluster)["kind"] == "Cluster"
    assert to_wire(cluster)["metadata"] == {"name": "m1", "finalizers": ["f"]}
    assert key_of(cluster) == Key("clusters.cluster.karmada.io", "", "m1")


def test_unknown_kinds_are_not_found() -> None:
    assert find_kind("work.karmada.io/v9", "ResourceBinding") is None


def test_two_kinds_of_one_name_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"resourcebindings\.work\.karmada\.io"):
        kinds.add(BINDINGS.id, BINDINGS)
