from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.kinds.native.native_objects import objects
from trimtab.api.kinds.native import codec
from trimtab.errors import BadRequest


def test_unknown_fields_are_reported_in_document_order() -> None:
    raw = {
        "metadata": {"name": "x", "nope": 2},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "imag": "x"}]}}},
        "frob": 1,
    }
    decoded = codec.read("apps.v1.Deployment", raw)
    assert decoded.unknown == ["metadata.nope", "spec.template.spec.containers[0].imag", "frob"]
    assert "frob" not in decoded.body


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        (
            "apps.v1.Deployment",
            {"spec": {"replicas": "3"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "core.v1.ConfigMap",
            {"data": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "coordination.v1.Lease",
            {"spec": {"renewTime": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006"',
        ),
        (
            "coordination.v1.Lease",
            {"spec": {"renewTime": "2026-01-01T00:00:02Z"}},
            'parsing time "2026-01-01T00:00:02Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
        ("core.v1.Secret", {"data": {"a": "!!"}}, "illegal base64 data at input byte 0"),
    ],
)
def test_value_of_wrong_type_is_rejected_with_the_error_text_of_go(name: str, raw: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest) as error:
        codec.decode(name, raw, "v1")
    kind = name.rsplit(".", 1)[1]
    assert error.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {text}'


def test_empty_values_are_written_as_kubernetes_writes_them() -> None:
    raw = {"metadata": {"labels": {}}, "spec": {"minReadySeconds": 0, "replicas": 0, "template": {"spec": {}}}}
    assert codec.read("apps.v1.Deployment", raw).body == {
        "metadata": {},
        "spec": {
            "replicas": 0,
            "selector": None,
            "template": {"metadata": {}, "spec": {"containers": None}},
            "strategy": {},
        },
        "status": {},
    }


def test_times_are_converted_to_utc_and_quantities_to_canonical_form() -> None:
    pod = {
        "metadata": {"creationTimestamp": "2026-01-01T02:00:00+02:00"},
        "spec": {"containers": [{"resources": {"limits": {"cpu": 0.5}}}]},
    }
    body = codec.read("core.v1.Pod", pod).body
    assert body["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert body["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}}


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["core.v1.Pod", "core.v1.Service", "batch.v1.Job", "core.v1.Node"]), st.data())
def test_reading_is_idempotent(name: str, data: st.DataObject) -> None:
    body = data.draw(objects(name))
    assert codec.read(name, body) == codec.DecodedObject(body, [])
