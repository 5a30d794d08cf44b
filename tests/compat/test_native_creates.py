"""Native objects are defaulted and owned as a real kube-apiserver does on creation."""

import json
from pathlib import Path
from typing import Any

import pytest

import trimtab.api.kinds
from trimtab.api.kind import find_kind
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.patch.managed_fields import FieldManager, track_update
from trimtab.api.patch.merge_schema import native_merge_schema
from trimtab.registry import discover

discover(trimtab.api.kinds)
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "native-creates.jsonl").read_text(encoding="utf-8").splitlines()
]
# Fields that admission and the server set after field ownership is computed; the author does not own them.
SERVER_FIELDS = {
    "Pod": {"tolerations", "priority", "preemptionPolicy"},
    "Namespace": {"finalizers"},
    "Node": {"taints"},
    "Service": {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"},
}


def without_fields(part: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in names}


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['id']}-{case['response']['kind']}")
def test_created_object_is_defaulted_and_owned_as_recorded(case: dict[str, Any]) -> None:
    request, response = case["request"], case["response"]
    api_version, kind = response["apiVersion"], response["kind"]
    declared = find_kind(api_version, kind)
    assert declared is not None
    obj = codec.read(message_name(api_version, kind), {**request, "apiVersion": api_version, "kind": kind}).body
    for fill in declared.defaults:
        obj = fill(obj)
    assert [
        cause for check in declared.validators for cause in check({**obj, "metadata": response["metadata"]}, None)
    ] == []

    sent = SERVER_FIELDS.get(kind, set())
    assert without_fields(obj.get("spec") or {}, sent) == without_fields(response.get("spec") or {}, sent)

    reset = ("status",) if declared.status else ()
    owned = track_update(
        None, obj, native_merge_schema(api_version, kind), FieldManager("x", "Update", api_version), None, without=reset
    )
    expected = response["metadata"].get("managedFields", [])[:1]
    assert [entry["fieldsV1"] for entry in owned["metadata"].get("managedFields", [])] == [
        entry["fieldsV1"] for entry in expected
    ]
