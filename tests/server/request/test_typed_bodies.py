"""Bodies whose kind is not that of the resource are decoded with their types checked."""

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.limits import MAX_JSON_BYTES_IN_LOOP, MAX_VALUES_IN_LOOP
from trimtab.errors import BadRequest, TooLarge
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


@pytest.mark.parametrize(
    "annotations",
    [{f"k{number}": "v" for number in range(MAX_VALUES_IN_LOOP + 1)}, {"long": "v" * MAX_JSON_BYTES_IN_LOOP}],
)
def test_large_body_is_refused_before_it_is_read(annotations: dict[str, str]) -> None:
    body = orjson.dumps({"metadata": {"name": "a", "annotations": annotations}})
    with pytest.raises(TooLarge, match="at most 8000 values and 262144 bytes"):
        decode_typed_body(Request("POST", "/", {}, {}, body=body), "policy/v1", "Eviction")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/v1/namespaces/default/configmaps/a"),
        ("DELETE", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction"),
        ("POST", "/api/v1/namespaces/default/pods/a/binding"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/a/token"),
    ],
)
def test_large_options_reviews_and_subresources_are_refused(method: str, path: str) -> None:
    body = orjson.dumps({"spec": {"groups": [str(number) for number in range(MAX_VALUES_IN_LOOP + 1)]}})

    async def scenario(client: AsgiClient) -> None:
        assert (await client(method, path, body)).status == 413

    with_asgi_client(scenario)
