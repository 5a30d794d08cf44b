"""APIServices that lead to another API server."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from server.aggregation.extension_server import (
    ALICE,
    API_SERVICES,
    FLUNDER,
    GROUP,
    NAME,
    ROOT,
    SERVER_NAME,
    TOKEN,
    VERSION,
    Scene,
    with_extension_server,
)
from trimtab.server.auth.user import AUTHENTICATED

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OBJECT = f"{ROOT}/namespaces/default/flunders/one"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def allow_alice(scene: Scene) -> None:
    rule = {"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["get"]}
    role = {"metadata": {"name": "flunders"}, "rules": [rule]}
    assert (await scene.client("POST", f"{RBAC}/clusterroles", role)).status == 201
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunders"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    assert (await scene.client("POST", f"{RBAC}/clusterrolebindings", binding)).status == 201


def test_request_reaches_the_other_server_in_the_name_of_the_caller(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        assert (await scene.condition("True"))["reason"] == "Passed"
        await allow_alice(scene)
        headers = {"authorization": f"Bearer {TOKEN}", "x_remote_user": "root", "x_remote_group": "system:masters"}
        found = await scene.client("GET", f"{OBJECT}?pretty=true", user=None, cookie="session=1", **headers)
        assert (found.status, found.json()) == (200, FLUNDER)
        (request,) = scene.extension.requests
        assert request.line == f"GET {OBJECT}?pretty=true HTTP/1.1"
        assert request.values("x-remote-user") == ["alice"]
        assert request.values("x-remote-group") == [AUTHENTICATED, "team"]
        assert request.values("x-remote-extra-example.org%2frealm") == ["north"]
        assert request.values("host") == [SERVER_NAME]
        assert not request.values("authorization")
        assert not request.values("cookie")

    with_extension_server(tmp_path, scenario)


def test_caller_without_the_right_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        assert (await scene.client("GET", OBJECT, user=ALICE)).status == 403
        assert not scene.extension.requests

    with_extension_server(tmp_path, scenario)


def test_body_and_status_are_passed_on(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        posted = await scene.client(
            "POST", f"{ROOT}/namespaces/default/flunders", FLUNDER, content_type="application/json"
        )
        assert (posted.status, posted.json()["code"]) == (404, 404)
        (request,) = scene.extension.requests
        assert b'"Flunder"' in request.body
        assert request.values("content-type") == ["application/json"]

    with_extension_server(tmp_path, scenario)


def test_discovery_has_the_group_of_the_other_server(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        groups = [one["name"] for one in (await scene.client("GET", "/apis")).json()["groups"]]
        assert groups[-1] == GROUP
        assert (await scene.client("GET", f"/apis/{GROUP}")).json()["preferredVersion"]["version"] == VERSION
        assert (await scene.client("GET", ROOT)).json()["resources"][0]["name"] == "flunders"
        listed = (await scene.client("GET", "/apis", accept=AGGREGATED)).json()["items"]
        (version,) = next(one for one in listed if one["metadata"]["name"] == GROUP)["versions"]
        assert version["freshness"] == "Current"
        (resource,) = version["resources"]
        assert (resource["resource"], resource["scope"]) == ("flunders", "Namespaced")
        assert resource["subresources"][0]["subresource"] == "status"
        protobuf = AGGREGATED.replace("json", "vnd.kubernetes.protobuf")
        assert b"flunders" in (await scene.client("GET", "/apis", accept=protobuf)).body

    with_extension_server(tmp_path, scenario)


def test_openapi_documents_have_the_group_of_the_other_server(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        index = (await scene.client("GET", "/openapi/v3")).json()["paths"]
        assert index[f"apis/{GROUP}/{VERSION}"]["serverRelativeURL"] == f"/openapi/v3{ROOT}?hash=ABC1"
        assert (await scene.client("GET", f"/openapi/v3{ROOT}?hash=ABC1")).json() == {"openapi": "3.0.0"}
        swagger = (await scene.client("GET", "/openapi/v2")).json()
        operation = swagger["paths"][f"{ROOT}/flunders"]["get"]
        assert operation["parameters"] == [{"name": "pretty", "in": "query", "type": "string"}]
        assert "com.example.wardle.Flunder" in swagger["definitions"]
        assert swagger["paths"]["/apis/apps/v1/deployments"]["get"] != operation  # only its own group

    with_extension_server(tmp_path, scenario)


def test_openapi_document_that_is_not_valid_harms_only_its_own_group(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.extension.documents["/openapi/v2"] = {"paths": {f"{ROOT}/x": {"get": {"responses": {"200": 3}}}}}
        await scene.register()
        await scene.condition("True")
        accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        found = await scene.client("GET", "/openapi/v2", accept=accept)
        assert found.status == 200
        assert b"/apis/apps/v1/deployments" in found.body

    with_extension_server(tmp_path, scenario)


def test_server_that_fails_is_unavailable_and_its_documents_are_stale(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        del scene.extension.documents[ROOT]
        change = {"spec": {"type": "ExternalName", "externalName": "localhost"}}
        path = "/api/v1/namespaces/default/services/extension"
        await scene.client("PATCH", path, change, content_type="application/merge-patch+json")
        condition = await scene.condition("False")
        assert condition["reason"] == "FailedDiscoveryCheck"
        assert "bad status" in condition["message"]
        refused = await scene.client("GET", OBJECT)
        assert (refused.status, refused.body) == (503, b"service unavailable\n")
        listed = (await scene.client("GET", "/apis", accept=AGGREGATED)).json()["items"]
        (version,) = next(one for one in listed if one["metadata"]["name"] == GROUP)["versions"]
        assert version["freshness"] == "Stale"
        assert version["resources"]

    with_extension_server(tmp_path, scenario)


@pytest.mark.parametrize("how", ["wrong bundle", "not verified", "no bundle"])
def test_server_is_verified_unless_the_api_service_says_otherwise(tmp_path: Path, how: str) -> None:
    async def scenario(scene: Scene) -> None:
        if how == "not verified":
            await scene.register(caBundle=None, insecureSkipTLSVerify=True)
            await scene.condition("True")
            return
        other = (tmp_path / "front-proxy" / "ca.crt").read_bytes()
        await scene.register(caBundle=b64encode(other).decode() if how == "wrong bundle" else None)
        condition = await scene.condition("False")
        assert "certificate verify failed" in condition["message"]

    with_extension_server(tmp_path, scenario)


def test_missing_service_is_reported(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create_api_service()
        condition = await scene.condition("False")
        assert (condition["reason"], condition["message"]) == (
            "ServiceNotFound",
            'service/extension in "default" is not present',
        )
        assert (await scene.client("GET", OBJECT)).status == 503

    with_extension_server(tmp_path, scenario)


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "224.0.0.1"])
def test_addresses_that_no_server_has_are_not_called(tmp_path: Path, host: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register(host=host)
        assert "no address that may be called" in (await scene.condition("False"))["message"]

    with_extension_server(tmp_path, scenario)


def test_path_outside_of_the_group_is_refused(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        assert (await scene.client("GET", f"{ROOT}/flunders/%2e%2e/%2e%2e/%2e%2e/metrics")).status == 400
        assert not scene.extension.requests

    with_extension_server(tmp_path, scenario)


def test_redirect_is_refused(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        scene.extension.answers[OBJECT] = b"HTTP/1.1 302 Found\r\nLocation: /version\r\nContent-Length: 0\r\n\r\n"
        found = await scene.client("GET", OBJECT)
        assert found.status == 502
        assert "location" not in found.headers

    with_extension_server(tmp_path, scenario)


def test_answer_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        monkeypatch.setattr("trimtab.server.aggregation.remote_server.MAX_REMOTE_ANSWER_BYTES", 10)
        refused = await scene.client("GET", OBJECT)
        assert refused.status == 503
        assert "longer than 10 bytes" in refused.json()["message"]

    with_extension_server(tmp_path, scenario)


def test_server_that_does_not_answer_costs_a_limited_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        scene.extension.answers[OBJECT] = b""
        monkeypatch.setattr("trimtab.server.aggregation.remote_server.ANSWER_SECONDS", 0.01)
        refused = await scene.client("GET", OBJECT)
        assert (refused.status, "no answer" in refused.json()["message"]) == (503, True)

    with_extension_server(tmp_path, scenario)


def test_watch_is_streamed_until_the_server_ends_it(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        scene.extension.answers[f"{ROOT}/flunders"] = head + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        found = await scene.client("GET", f"{ROOT}/flunders?watch=true")
        assert (found.status, found.body) == (200, b"onetwo")

    with_extension_server(tmp_path, scenario)


def test_group_of_this_server_cannot_be_taken_over(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        place = {"namespace": "default", "name": "extension", "port": scene.port}
        path = f"{API_SERVICES}/v1.apps"
        change = {"spec": {"service": place, "caBundle": scene.bundle}}
        assert (await scene.client("PATCH", path, change, content_type="application/merge-patch+json")).status == 200
        await scene.register()
        await scene.condition("True")
        assert (await scene.client("GET", "/apis/apps/v1/deployments")).json()["kind"] == "DeploymentList"
        listed = (await scene.client("GET", "/apis/apps/v1")).json()["resources"]
        assert "deployments" in [one["name"] for one in listed]
        assert ("apps", "v1") not in scene.client.server.catalogue.remote
        (condition,) = (await scene.client("GET", path)).json()["status"]["conditions"]
        assert condition["reason"] == "ServedLocally"
        assert not scene.extension.requests

    with_extension_server(tmp_path, scenario)


def test_deleted_api_service_is_served_no_longer(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        assert (await scene.client("DELETE", f"{API_SERVICES}/{NAME}")).status == 200
        for _ in range(500):
            if GROUP not in (await scene.client("GET", "/apis")).body.decode():
                break
            await asyncio.sleep(0.01)
        assert (await scene.client("GET", OBJECT)).status == 404

    with_extension_server(tmp_path, scenario)


def test_other_servers_can_read_which_front_proxy_to_trust(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.register()
        await scene.condition("True")
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        data = (await scene.client("GET", path)).json()["data"]
        assert data["requestheader-client-ca-file"] == (tmp_path / "front-proxy" / "ca.crt").read_text()
        assert data["requestheader-username-headers"] == '["X-Remote-User"]'

    with_extension_server(tmp_path, scenario)
