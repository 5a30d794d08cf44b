import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.kinds.native.native_objects import objects
from trimtab.api import protobuf
from trimtab.api.kinds.native import codec
from trimtab.api.kinds.native.fields import message_name
from trimtab.errors import BadRequest

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "compat" / "protobuf-requests.jsonl").read_text().splitlines()
]
KINDS = [
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("batch/v1", "CronJob"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("coordination.k8s.io/v1", "Lease"),
    ("events.k8s.io/v1", "Event"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['id']}-{case['kind']}")
def test_recorded_bodies_of_kubectl_and_client_go_are_decoded(case: dict[str, Any]) -> None:
    raw = protobuf.decode(base64.b64decode(case["body"]))
    assert (raw["apiVersion"], raw["kind"], raw.get("metadata", {}).get("name", "")) == (
        case["apiVersion"],
        case["kind"],
        case["name"],
    )
    assert codec.read(message_name(raw["apiVersion"], raw["kind"]), raw).unknown == []


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.data())
def test_encoded_object_decodes_to_the_same_object(kind: tuple[str, str], data: st.DataObject) -> None:
    name = message_name(*kind)
    raw = {"apiVersion": kind[0], "kind": kind[1], **data.draw(objects(name))}
    assert codec.read(name, protobuf.decode(protobuf.encode(raw))).body == raw


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(RECORDED), st.data())
def test_corrupted_bodies_raise_only_bad_request(case: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(base64.b64decode(case["body"]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(4, len(body))) :]
    try:
        raw = protobuf.decode(bytes(body))
    except BadRequest:
        return
    assert isinstance(raw, dict)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        protobuf.decode(body)


def test_deep_nesting_is_rejected() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(150):
        schema = {"not": schema}
    raw = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    }
    with pytest.raises(BadRequest, match="nested too deeply"):
        protobuf.decode(protobuf.encode(raw))
