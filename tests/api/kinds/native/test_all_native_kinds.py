"""Properties that every native kind must have."""

import trimtab.api.kinds
from trimtab.api.kind import kinds
from trimtab.api.kinds.native import openapi
from trimtab.api.kinds.native.fields import has_message, message_name
from trimtab.registry import discover

discover(trimtab.api.kinds)
# Cluster is a built-in of Karmada's aggregated API, not of Kubernetes.
NATIVE = [kind for kind in kinds.values() if not kind.custom and kind.name != "Cluster"]


def test_every_native_kind_has_fields_and_a_published_schema() -> None:
    assert len(NATIVE) > 45
    for kind in NATIVE:
        for version in (kind.version, *kind.other_versions):
            api_version = f"{kind.group}/{version}" if kind.group else version
            assert has_message(message_name(api_version, kind.name)), kind
            schema = openapi.component(openapi.schema_name(api_version, kind.name))
            assert schema["x-kubernetes-group-version-kind"] == [
                {"group": kind.group, "version": version, "kind": kind.name}
            ]
            assert schema["description"]


def test_kinds_with_a_status_field_have_a_status_subresource() -> None:
    for kind in NATIVE:
        schema = openapi.component(openapi.schema_name(kind.api_version, kind.name))
        if "status" in schema["properties"] and "create" not in kind.verbs:
            assert kind.status or kind.name == "CSINode", kind


def test_an_empty_object_of_every_kind_can_be_decoded() -> None:
    for kind in NATIVE:
        assert kind.decode({"metadata": {"name": "x"}}).name == "x"
