"""Requests to a server are recorded as the policy says: who, what, the answer, and no secret at level Metadata."""

import asyncio
import contextlib
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from trimtab.api.protobuf import encode
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import ApiError
from trimtab.server.daemon import Daemon
from trimtab.server.http.audit import AuditSettings
from trimtab.server.request.negotiation import APPLY, JSON, PROTOBUF

SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, resources: [{group: "", resources: [secrets]}]}
  - {level: RequestResponse, omitManagedFields: true, resources: [{group: "", resources: [configmaps]}]}
  - {level: None}
"""


def record(tmp_path: Path, policy: str = POLICY) -> list[dict[str, Any]]:
    (tmp_path / "policy.yaml").write_text(policy)

    async def scenario() -> None:
        settings = AuditSettings(tmp_path / "policy.yaml", tmp_path / "audit.log")
        daemon = Daemon(tmp_path / "data", "127.0.0.1", 0, audit=settings)
        await daemon.start()
        client = KubeClient(load(str(daemon.kubeconfig)))
        metadata = {"namespace": "default", "name": "a"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "hunter2"}}
        await client.create(SECRETS, secret)
        await client.create(
            CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
        )
        with contextlib.suppress(ApiError):
            await client.get(CONFIG_MAPS, "default", "missing")
        await client.fetch("/version")
        await client.close()
        await daemon.stop()

    asyncio.run(scenario())
    return [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]


def test_events_have_what_the_policy_asks_for(tmp_path: Path) -> None:
    secret, config_map, missing = record(tmp_path)
    assert secret["user"]["username"] == "trimtab-admin"
    assert (secret["verb"], secret["stage"], secret["level"]) == ("create", "ResponseComplete", "Metadata")
    assert secret["objectRef"] == {"resource": "secrets", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert secret["responseStatus"]["code"] == 201
    assert secret["sourceIPs"] == ["127.0.0.1"]
    assert config_map["requestObject"]["data"] == config_map["responseObject"]["data"] == {"a": "1"}
    assert "managedFields" not in config_map["responseObject"]["metadata"]
    assert missing["responseStatus"]["reason"] == "NotFound"
    assert len({event["auditID"] for event in (secret, config_map, missing)}) == 3


def test_level_metadata_has_no_content(tmp_path: Path) -> None:
    record(tmp_path)
    assert "hunter2" not in (tmp_path / "audit.log").read_text()
    assert "aHVudGVyMg" not in (tmp_path / "audit.log").read_text()


def send(daemon: Daemon, method: str, path: str, media_type: str, body: bytes, answer: str) -> None:
    token = (daemon.kubeconfig.parent / "pki" / "admin.token").read_text()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": media_type, "Accept": answer}
    message = urllib.request.Request(daemon.url + path, data=body, headers=headers, method=method)
    trusted = ssl.create_default_context(cafile=str(daemon.kubeconfig.parent / "pki" / "ca.crt"))
    urllib.request.urlopen(message, context=trusted, timeout=60).close()


def test_objects_that_kubectl_sends_as_protobuf_or_yaml_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    path = "/api/v1/namespaces/default/configmaps"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"a": "1"}}

    async def scenario() -> None:
        settings = AuditSettings(tmp_path / "policy.yaml", tmp_path / "audit.log")
        daemon = Daemon(tmp_path / "data", "127.0.0.1", 0, audit=settings)
        await daemon.start()
        await asyncio.to_thread(send, daemon, "POST", path, PROTOBUF, encode(config_map), PROTOBUF)
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2'}\n"
        await asyncio.to_thread(send, daemon, "PATCH", f"{path}/c?fieldManager=me", APPLY, text, JSON)
        await daemon.stop()

    asyncio.run(scenario())
    created, applied = (json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines())
    assert created["objectRef"]["name"] == "b"
    assert created["requestObject"]["data"] == created["responseObject"]["data"] == {"a": "1"}
    assert applied["requestObject"]["data"] == applied["responseObject"]["data"] == {"a": "2"}
    assert "trimtab.dev/omitted" not in {**created["annotations"], **applied["annotations"]}


def test_audit_annotations_and_violations_of_admission_policies_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("cel_expr_python")
    (tmp_path / "policy.yaml").write_text(POLICY)
    group = "admissionregistration.k8s.io"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "number", "expression": "size(object.data)"}],
        "validations": [{"expression": "variables.number < 2", "message": "at most one"}],
        "auditAnnotations": [
            {"key": "number", "valueExpression": "'has ' + string(variables.number)"},
            {"key": "nothing", "valueExpression": "null"},
        ],
    }
    bound = {"policyName": "few", "validationActions": ["Audit"]}
    policies = Resource(group, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
    bindings = Resource(
        group, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    )

    async def scenario() -> None:
        settings = AuditSettings(tmp_path / "policy.yaml", tmp_path / "audit.log")
        daemon = Daemon(tmp_path / "data", "127.0.0.1", 0, audit=settings)
        await daemon.start()
        client = KubeClient(load(str(daemon.kubeconfig)))
        for resource, content in ((policies, spec), (bindings, bound)):
            head = {"apiVersion": f"{group}/v1", "kind": resource.kind, "metadata": {"name": "few"}}
            await client.create(resource, {**head, "spec": content})
        metadata = {"namespace": "default", "name": "a"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "2"}}
        await client.create(CONFIG_MAPS, body)
        await client.close()
        await daemon.stop()

    asyncio.run(scenario())
    (event,) = map(json.loads, (tmp_path / "audit.log").read_text().splitlines())
    annotations = event["annotations"]
    assert annotations["few/number"] == "has 2"
    assert "few/nothing" not in annotations
    (failure,) = json.loads(annotations["validation.policy.admission.k8s.io/validation_failure"])
    assert failure == {"message": "at most one", "policy": "few", "binding": "few", "validationActions": ["Audit"]}
