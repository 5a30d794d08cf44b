"""Bodies whose kind is not that of the resource are decoded with their types checked."""

import orjson
import pytest

from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request
from trimtab.server.request.typed_bodies import decode_typed_body, read_typed


def request(body: object) -> Request:
    headers = {"content-type": "application/json"}
    return Request("POST", "/", {}, headers, body=orjson.dumps(body))


def test_kind_may_be_omitted_and_unknown_fields_are_dropped() -> None:
    found = decode_typed_body(request({"metadata": {"name": "a"}, "surplus": 1}), "policy/v1", "Eviction")
    assert found["metadata"]["name"] == "a"
    assert "surplus" not in found


def test_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match="cannot be handled as a Eviction"):
        decode_typed_body(request({"kind": "Pod", "apiVersion": "v1"}), "policy/v1", "Eviction")


@pytest.mark.parametrize("body", [{"metadata": {"annotations": "text"}}, {"deleteOptions": []}, {"metadata": 1}])
def test_wrong_type_is_a_bad_request(body: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        decode_typed_body(request(body), "policy/v1", "Eviction")


def test_value_that_is_no_object_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="it must be an object"):
        read_typed([], "autoscaling/v1", "Scale")
