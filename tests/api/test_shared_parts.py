"""Bindings of a policy with a large placement share it."""

from typing import Any

import msgspec
import pytest

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.policy import ClusterAffinity, Placement
from trimtab.api.kinds.work import BindingSpec, ResourceBinding
from trimtab.api.shared_parts import MIN_LARGE_BYTES, SharedParts
from trimtab.api.value import Meta

LARGE = Placement(cluster_affinity=ClusterAffinity(cluster_names=tuple(f"cluster-{n}" for n in range(1000))))
SMALL = Placement(cluster_affinity=ClusterAffinity(cluster_names=("one",)))


def binding(name: str, placement: Placement | None) -> ResourceBinding:
    return ResourceBinding(
        metadata=Meta(name=name, namespace="shop"), spec=BindingSpec(replicas=2, placement=placement)
    )


@pytest.mark.parametrize("placement", [LARGE, SMALL, None])
def test_wire_form_is_the_same_as_without_sharing(placement: Placement | None) -> None:
    wanted = binding("web", placement)
    plain = msgspec.json.decode(msgspec.json.encode(wanted))
    assert to_wire(wanted) == {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", **plain}
    assert wanted.spec.placement is placement


def test_bindings_share_both_forms_of_a_large_placement() -> None:
    one, other = to_wire(binding("one", LARGE)), to_wire(binding("other", LARGE))
    assert one["spec"]["placement"] is other["spec"]["placement"]
    decoded: Any = kind_of(ResourceBinding).decode(one)
    assert decoded == binding("one", LARGE)
    assert decoded.spec.placement is LARGE


def test_an_equal_wire_form_of_another_origin_is_decoded() -> None:
    received = msgspec.json.decode(msgspec.json.encode(to_wire(binding("web", LARGE))))
    decoded: Any = kind_of(ResourceBinding).decode(received)
    assert decoded == binding("web", LARGE)
    assert decoded.spec.placement is not LARGE


def test_a_changed_copy_of_a_wire_form_is_decoded() -> None:
    wire = to_wire(binding("web", LARGE))
    wire["spec"]["placement"] = {**wire["spec"]["placement"], "clusterAffinity": {"clusterNames": ["one"]}}
    decoded: Any = kind_of(ResourceBinding).decode(wire)
    assert decoded == binding("web", SMALL)


@pytest.mark.parametrize("spec", [None, [], {}, {"placement": None}])
def test_objects_without_a_placement_are_decoded(spec: Any) -> None:
    raw = {"metadata": {"name": "web"}, "spec": spec}
    try:
        expected: Any = msgspec.convert(raw, type=ResourceBinding, strict=False)
    except msgspec.ValidationError:
        with pytest.raises(msgspec.ValidationError):
            kind_of(ResourceBinding).decode(raw)
    else:
        assert kind_of(ResourceBinding).decode(raw) == expected


def test_parts_are_forgotten_at_the_limit() -> None:
    parts = SharedParts(limit=2)
    values = [
        Placement(cluster_affinity=ClusterAffinity(cluster_names=("x" * MIN_LARGE_BYTES, str(n)))) for n in range(3)
    ]
    forms = [parts.wire_form(value) for value in values]
    assert [parts.typed_value(form or {}) is value for form, value in zip(forms, values, strict=True)] == [
        False,
        False,
        True,
    ]
    assert parts.wire_form(SMALL) is None


def test_the_text_of_a_large_value_is_encoded_once() -> None:
    parts = SharedParts()
    parts.wire_form(LARGE)
    assert parts.json_text(LARGE) is parts.json_text(LARGE)
    for value in (LARGE, SMALL, None):
        assert parts.json_text(value) == msgspec.json.encode(value).decode()
