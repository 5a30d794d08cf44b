"""The webhook servers of `agnhost` in simulated containers, called by the API server of their cluster."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from simulate.fixtures import run_in_whole_cluster
from trimtab.client.client import Resource
from trimtab.errors import ApiError
from trimtab.server.auth.certificates import ensure_authority
from trimtab.simulate.member import SimulatedMember

SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICES = Resource("", "v1", "services", "Service")
PODS = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
HOOKS = "admissionregistration.k8s.io"
MUTATING = Resource(HOOKS, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = Resource(
    HOOKS, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
FLAGS = ["--tls-cert-file=/certs/tls.crt", "--tls-private-key-file=/certs/tls.key", "--port=8444"]


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def start_server(member: SimulatedMember, directory: Path, command: str, name: str = "hook.default.svc") -> str:
    """Run a webhook server of agnhost behind the Service `hook`; returns the bundle that verifies it."""
    authority = ensure_authority(directory, [name])
    certificate, key = authority.certificate_and_key("server")
    data = {"tls.crt": encoded(certificate), "tls.key": encoded(key)}
    await member.client.create(SECRETS, {"metadata": {"name": "certs", "namespace": "default"}, "data": data})
    container = {
        "name": "server",
        "image": "registry.example/agnhost:2.53",
        "args": [command, *FLAGS],
        "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8444, "scheme": "HTTPS"}, "periodSeconds": 1},
    }
    spec = {"containers": [container], "volumes": [{"name": "certs", "secret": {"secretName": "certs"}}]}
    metadata = {"name": "server", "namespace": "default", "labels": {"app": "hook"}}
    await member.client.create(PODS, {"metadata": metadata, "spec": spec})
    ports = [{"port": 443, "targetPort": 8444}]
    service = {
        "metadata": {"name": "hook", "namespace": "default"},
        "spec": {"selector": {"app": "hook"}, "ports": ports},
    }
    await member.client.create(SERVICES, service)
    for _ in range(100):
        if member.server.service_calls.find_address("default", "hook", 443).pod is not None:
            return encoded(authority.certificate)
        await sleep_a_second()
    raise AssertionError("the server did not become ready")


async def sleep_a_second() -> None:
    await asyncio.sleep(1)


def configuration(path: str, bundle: str, *, resource: str = "configmaps", **more: Any) -> dict[str, Any]:
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": path}, "caBundle": bundle},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return {"metadata": {"name": "hook"}, "webhooks": [webhook]}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def test_mutating_webhook_in_a_container_changes_objects(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path, "webhook")
        await member.client.create(MUTATING, configuration("/mutating-configmaps", bundle))
        created = await member.client.create(CONFIG_MAPS, config_map("a", **{"mutation-start": "yes"}))
        assert created["data"] == {"mutation-start": "yes", "mutation-stage-1": "yes"}

    run_in_whole_cluster(scenario)


def test_validating_webhook_in_a_container_refuses_objects(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path, "webhook")
        await member.client.create(VALIDATING, configuration("/configmaps", bundle))
        await member.client.create(CONFIG_MAPS, config_map("good"))
        with pytest.raises(ApiError, match="the configmap contains unwanted key and value"):
            await member.client.create(CONFIG_MAPS, config_map("bad", **{"webhook-e2e-test": "webhook-disallow"}))

    run_in_whole_cluster(scenario)


@pytest.mark.parametrize("name", ["other.default.svc", ""])
def test_server_with_a_certificate_that_is_not_trusted_is_refused(tmp_path: Path, name: str) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path / "own", "webhook", name or "hook.default.svc")
        if not name:
            bundle = encoded(ensure_authority(tmp_path / "other", []).certificate)
        await member.client.create(VALIDATING, configuration("/configmaps", bundle))
        with pytest.raises(ApiError, match="failed to verify certificate"):
            await member.client.create(CONFIG_MAPS, config_map("a"))

    run_in_whole_cluster(scenario)


def test_late_answer_fails_by_the_time_limit_of_the_webhook(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path, "webhook")
        await member.client.create(VALIDATING, configuration("/always-allow-delay-5s", bundle, timeoutSeconds=1))
        with pytest.raises(ApiError, match="context deadline exceeded"):
            await member.client.create(CONFIG_MAPS, config_map("a"))
        await member.client.patch(VALIDATING, "", "hook", {"webhooks": [{**hook(bundle), "timeoutSeconds": 10}]})
        await member.client.create(CONFIG_MAPS, config_map("a"))

    def hook(bundle: str) -> dict[str, Any]:
        found: dict[str, Any] = configuration("/always-allow-delay-5s", bundle)["webhooks"][0]
        return found

    run_in_whole_cluster(scenario)


def definition(bundle: str, storage: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client = {"service": {"namespace": "default", "name": "hook", "path": "/crdconvert"}, "caBundle": bundle}
    return {
        "metadata": {"name": "things.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "names": {"plural": "things", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [
                {"name": name, "served": True, "storage": name == storage, "schema": {"openAPIV3Schema": schema}}
                for name in ("v1", "v2")
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    }


def things(version: str) -> Resource:
    return Resource("stable.example.com", version, "things", "Thing")


def thing(version: str, name: str, **fields: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"stable.example.com/{version}", "kind": "Thing", "metadata": metadata, **fields}


async def serve_things(member: SimulatedMember, bundle: str) -> None:
    await member.client.create(CRDS, definition(bundle, "v1"))
    while member.server.catalogue.find("stable.example.com", "v2", "things") is None:
        await sleep_a_second()


def test_objects_are_converted_between_versions_by_the_webhook_of_their_definition(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await serve_things(member, await start_server(member, tmp_path, "crd-conversion-webhook"))
        created = await member.client.create(things("v1"), thing("v1", "a", hostPort="localhost:8080"))
        assert created["apiVersion"] == "stable.example.com/v1"
        read = await member.client.get(things("v2"), "default", "a")
        assert (read["apiVersion"], read["host"], read["port"]) == ("stable.example.com/v2", "localhost", "8080")
        assert "hostPort" not in read
        second = thing("v2", "b", host="other", port="1")
        assert (await member.client.create(things("v2"), second))["host"] == "other"
        assert (await member.client.get(things("v1"), "default", "b"))["hostPort"] == "other:1"
        await member.client.patch(things("v2"), "default", "a", {"port": "9"})
        assert (await member.client.get(things("v1"), "default", "a"))["hostPort"] == "localhost:9"

    run_in_whole_cluster(scenario)


def test_list_has_one_version_also_when_objects_are_stored_in_several(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path, "crd-conversion-webhook")
        await serve_things(member, bundle)
        await member.client.create(things("v1"), thing("v1", "a", hostPort="a:1"))
        before = (await member.client.list(things("v2"), "default")).revision
        await member.client.patch(CRDS, "", "things.stable.example.com", {"spec": definition(bundle, "v2")["spec"]})
        while member.server.catalogue.find("stable.example.com", "v2", "things").converter.storage_version[-1] != "2":
            await sleep_a_second()
        await member.client.create(things("v2"), thing("v2", "b", host="b"))
        for version, field in (("v1", "hostPort"), ("v2", "host")):
            items = (await member.client.list(things(version), "default")).items
            assert [(one["apiVersion"][-2:], bool(one.get(field))) for one in items] == [(version, True)] * 2
        watch = member.client.watch(things("v1"), "default", revision=before)
        events = await anext(watch)
        assert [(one.type, one.object["hostPort"]) for one in events] == [("ADDED", "b:")]

    run_in_whole_cluster(scenario)


def test_object_that_cannot_be_converted_is_an_error_that_names_the_webhook(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        await serve_things(member, await start_server(member, tmp_path, "crd-conversion-webhook"))
        await member.client.create(things("v1"), thing("v1", "a", hostPort="1:2:3"))
        with pytest.raises(ApiError, match=r"conversion webhook for stable.example.com/v1, Kind=Thing failed: invalid"):
            await member.client.get(things("v2"), "default", "a")
        await member.client.get(things("v1"), "default", "a")

    run_in_whole_cluster(scenario)


def test_webhook_refuses_connections_to_a_container(tmp_path: Path) -> None:
    async def scenario(member: SimulatedMember) -> None:
        bundle = await start_server(member, tmp_path, "webhook")
        await member.client.create(VALIDATING, configuration("/always-deny", bundle, resource="pods/exec"))
        path = "/api/v1/namespaces/default/pods/server/exec"
        answer = await member.client.fetch(f"{path}?command=true&container=server")
        assert (answer.code, b"this webhook denies all requests" in answer.body) == (400, True)

    run_in_whole_cluster(scenario)
