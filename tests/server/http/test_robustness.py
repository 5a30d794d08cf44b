"""Requests that no client should send get an answer of the 4xx class, change nothing and log no traceback."""

import asyncio
import json
import logging
from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.apiserver import ApiServer
from trimtab.server.http.listener import Listener
from trimtab.store.store import Store

PROTOBUF = "application/vnd.kubernetes.protobuf"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
CLUSTER = {
    "apiVersion": "cluster.karmada.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "m1"},
    "spec": {"syncMode": "Push"},
}
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "m1"},
    "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}]},
}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m1"}}
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.mark.parametrize(("path", "body"), [(CLUSTERS, CLUSTER), (POLICIES, POLICY)])
def test_kind_without_a_protobuf_form_is_not_acceptable_as_protobuf(path: str, body: Any) -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", path, body, accept=PROTOBUF)).status == 406
        assert (await client("GET", f"{path}/m1")).status == 404
        both = await client("POST", path, body, accept=f"{PROTOBUF},application/json")
        assert both.status == 201
        assert both.json()["metadata"]["name"] == "m1"
        for method, target in (("GET", path), ("GET", f"{path}/m1"), ("GET", f"{path}?watch=1")):
            assert (await client(method, target, accept=PROTOBUF)).status == 406
        refused = await client("GET", f"{path}/absent", accept=f"{PROTOBUF},application/json")
        assert refused.json()["code"] == 404

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    "accept",
    [
        "application/cbor",
        "text/html",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Nothing;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
)
def test_nothing_is_written_when_the_response_is_not_acceptable(accept: str) -> None:
    merge = {"content_type": "application/merge-patch+json"}
    apply = {"content_type": "application/apply-patch+yaml"}

    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", CONFIG_MAPS, CONFIG_MAP, accept=accept)).status == 406
        assert (
            await client("PATCH", f"{CONFIG_MAPS}/m1?fieldManager=m", CONFIG_MAP, accept=accept, **apply)
        ).status == 406
        assert (await client("GET", f"{CONFIG_MAPS}/m1")).status == 404
        await client("POST", CONFIG_MAPS, CONFIG_MAP)
        changed = {**CONFIG_MAP, "data": {"a": "b"}}
        assert (await client("PUT", f"{CONFIG_MAPS}/m1", changed, accept=accept)).status == 406
        assert (await client("PATCH", f"{CONFIG_MAPS}/m1", {"data": {"a": "b"}}, accept=accept, **merge)).status == 406
        assert (await client("DELETE", f"{CONFIG_MAPS}/m1", accept=accept)).status == 406
        assert "data" not in (await client("GET", f"{CONFIG_MAPS}/m1")).json()
        await client("POST", PODS, POD)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        assert (await client("POST", f"{PODS}/p/eviction", eviction, accept=accept)).status == 406
        status = {"status": {"message": "x"}}
        assert (await client("PATCH", f"{PODS}/p/status", status, accept=accept, **merge)).status == 406
        assert "message" not in (await client("GET", f"{PODS}/p")).json()["status"]

    with_asgi_client(scenario)


def test_unknown_include_object_is_refused_before_the_write() -> None:
    async def scenario(client: AsgiClient) -> None:
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert (await client("POST", f"{CONFIG_MAPS}?includeObject=Bad", CONFIG_MAP, accept=table)).status == 400
        assert (await client("GET", f"{CONFIG_MAPS}/m1")).status == 404

    with_asgi_client(scenario)


EVICTIONS: list[Any] = [
    {"metadata": {"name": "p", "annotations": "x"}},
    {"metadata": {"name": "p", "annotations": ["x"]}},
    {"metadata": {"name": "p", "annotations": {"trimtab.dev/evict-together-with": 1}}},
    {"metadata": {"name": "p", "labels": 1}},
    {"metadata": "p"},
    {"metadata": {"name": ["p"]}},
    {"metadata": {"name": "p"}, "deleteOptions": "x"},
    {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": "x"}},
    {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "x"}},
    {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": {"a": 1}}},
    {"kind": ["Eviction"], "metadata": {"name": "p"}},
]
BINDINGS: list[Any] = [
    {"metadata": {"name": "p"}, "target": "node"},
    {"metadata": {"name": "p", "annotations": "x"}, "target": {"name": "n"}},
    {"metadata": {"name": "p"}, "target": {"name": {"a": 1}}},
    {"metadata": {"name": "p"}, "target": {"kind": ["Node"], "name": "n"}},
    {"metadata": "x", "target": {"name": "n"}},
]
TOKENS: list[Any] = [
    {"spec": "x"},
    {"spec": {"audiences": "x"}},
    {"spec": {"audiences": [1]}},
    {"spec": {"expirationSeconds": "x"}},
    {"spec": {"boundObjectRef": "x"}},
    {"spec": {"boundObjectRef": {"kind": 1}}},
]
SCALES: list[Any] = [
    {"metadata": "x", "spec": {"replicas": 1}},
    {"metadata": {"uid": 5}, "spec": {"replicas": 1}},
    {"metadata": {"resourceVersion": ["1"]}, "spec": {"replicas": 1}},
    {"spec": "x"},
    {"spec": {"replicas": "1"}},
    {"spec": {"replicas": 1.5}},
    {"spec": {"replicas": 1 << 40}},
]


@pytest.mark.parametrize(
    ("path", "bodies"),
    [
        (f"{PODS}/p/eviction", EVICTIONS),
        (f"{PODS}/p/binding", BINDINGS),
        ("/api/v1/namespaces/default/bindings", BINDINGS),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", TOKENS),
    ],
)
def test_wrong_types_in_a_subresource_are_bad_requests(path: str, bodies: list[Any]) -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", PODS, POD)
        await client("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        for body in bodies:
            response = await client("POST", path, body)
            assert response.status == 400, (body, response.body)
        pod = await client("GET", f"{PODS}/p")
        assert "nodeName" not in pod.json()["spec"]

    with_asgi_client(scenario, check_all_budgets=True)


def test_wrong_types_in_a_scale_are_bad_requests() -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}

    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", deployments, deployment)).status == 201
        for body in SCALES:
            response = await client("PUT", f"{deployments}/d/scale", body)
            assert response.status == 400, (body, response.body)
            for media in ("merge-patch+json", "apply-patch+yaml"):
                path = f"{deployments}/d/scale?fieldManager=m"
                response = await client("PATCH", path, body, content_type=f"application/{media}")
                assert response.status == 400, (media, body, response.body)

    with_asgi_client(scenario)


DELETE_OPTIONS: list[Any] = [
    {"preconditions": "x"},
    {"preconditions": {"uid": ["x"]}},
    {"gracePeriodSeconds": "x"},
    {"propagationPolicy": ["x"]},
    {"propagationPolicy": {}},
    {"dryRun": "All"},
    {"dryRun": [1]},
    {"orphanDependents": "yes"},
    {"kind": {"a": 1}},
    [],
]


@pytest.mark.parametrize("body", DELETE_OPTIONS)
def test_wrong_types_in_delete_options_are_bad_requests(body: Any) -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", CONFIG_MAPS, CONFIG_MAP)
        for path in (f"{CONFIG_MAPS}/m1", CONFIG_MAPS):
            assert (await client("DELETE", path, body)).status == 400
        assert (await client("GET", f"{CONFIG_MAPS}/m1")).status == 200

    with_asgi_client(scenario)


def nested_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def crd(schema: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "deeps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.parametrize("levels", [60, 105, 110, 112, 114, 116, 120, 150, 230, 300])
def test_deep_crd_is_served_or_refused(levels: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(client: AsgiClient) -> None:
        created = await client("POST", CRDS, json.dumps(crd(nested_schema(levels))).encode())
        assert created.status in {201, 400, 422}, created.body[:300]
        await asyncio.sleep(5)
        if created.status == 201:
            obj: dict[str, Any] = {}
            for _ in range(levels - 1):
                obj = {"a": obj}
            body = {**obj, "apiVersion": "example.com/v1", "kind": "Deep", "metadata": {"name": "x"}}
            path = "/apis/example.com/v1/namespaces/default/deeps"
            made = await client("POST", path, body)
            assert made.status == 201, made.body[:300]
            merge = {"content_type": "application/merge-patch+json"}
            assert (await client("PATCH", f"{path}/x", {"metadata": {"labels": {"a": "b"}}}, **merge)).status == 200
            table = "application/json;as=Table;v=v1;g=meta.k8s.io"
            for target in (path, f"{path}/x", f"{path}?includeObject=Object", CRDS, f"{CRDS}/deeps.example.com"):
                for accept in ("application/json", "application/yaml", table):
                    assert (await client("GET", target, accept=accept)).status == 200, target
                assert (await client("GET", target, user_agent="curl")).status == 200, target
            for target in ("/openapi/v2", "/openapi/v3/apis/example.com/v1"):
                assert (await client("GET", target)).status == 200, target

    with_asgi_client(scenario)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("levels", [200, 240, 300, 500, 600])
@pytest.mark.parametrize(
    "media", ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json-patch+json"]
)
def test_deep_patch_is_refused(media: str, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    patch = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"labels":{deep}}},"data":{{"a":{deep}}}}}'
    if media == "json-patch+json":
        patch = (
            f'[{{"op":"add","path":"/data","value":{deep}}},{{"op":"copy","from":"/data","path":"/data{"/0" * 200}"}}]'
        )

    async def scenario(client: AsgiClient) -> None:
        await client("POST", CONFIG_MAPS, CONFIG_MAP)
        path = f"{CONFIG_MAPS}/m1?fieldManager=m"
        response = await client("PATCH", path, patch.encode(), content_type=f"application/{media}")
        assert response.status in {400, 422, 500}
        assert b"unexpected server failure" not in response.body
        assert "data" not in (await client("GET", f"{CONFIG_MAPS}/m1")).json()

    with_asgi_client(scenario)


@pytest.mark.parametrize("target", ["*", "", "x", "api", "?", "/%", "/%00", "//", "/../.."])
@pytest.mark.parametrize("method", ["OPTIONS", "GET", "TRACE", "FOO"])
def test_odd_request_targets_are_no_server_errors(method: str, target: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client(method, target)).status < 500

    with_asgi_client(scenario)


def run_on_socket(scenario: Any) -> None:
    """Run `scenario(port)` with an API server on a socket without TLS."""

    async def run() -> None:
        server = ApiServer(Store())
        await server.start()
        listener = Listener(server.app, "127.0.0.1", 0, None)
        await listener.start()
        try:
            await scenario(listener.port)
        finally:
            await listener.stop()
            await server.stop()

    asyncio.run(run())


def test_client_that_hangs_up_logs_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    requests = [
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        b'POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"a',
        b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n",
        b"GET /version HTTP/1.1\r\nhost",
        b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n",
    ]

    async def scenario(port: int) -> None:
        for request in requests:
            for abort in (False, True):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                await writer.drain()
                await asyncio.sleep(0.05)
                writer.transport.abort() if abort else writer.close()
                await asyncio.sleep(0.05)

    with caplog.at_level(logging.WARNING):
        run_on_socket(scenario)
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


def test_odd_bytes_on_the_socket_log_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    requests = [
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n",
        b"GET http://example.com/version HTTP/1.1\r\nhost: x\r\n",
        b"GET version HTTP/1.1\r\nhost: x\r\n",
        b"GET /version?\xff\xfe HTTP/1.1\r\nhost: x\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\nx: \xff\r\n",
        b"GET /version HTTP/9.9\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
        b"GET /version HTTP/1.1\r\ncontent-length: -1\r\n",
        b"POST /version HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n",
        b"GET /version HTTP/1.1\r\nupgrade: h2c\r\nconnection: upgrade\r\n",
    ]

    async def scenario(port: int) -> None:
        for request in requests:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request + b"connection: close\r\n\r\n")
            await writer.drain()
            head = await asyncio.wait_for(reader.readline(), 30)
            assert not head or b" 5" not in head[:12], (request, head)
            writer.close()

    with caplog.at_level(logging.WARNING):
        run_on_socket(scenario)
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
