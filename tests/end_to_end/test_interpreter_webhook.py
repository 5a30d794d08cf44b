"""A webhook interprets a kind of a user from the template to its status, without blocking anything."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.client.client import Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.interpret.operations import InterpreterFailure
from trimtab.interpret.webhook_rules import WebhookQuestion
from trimtab.members.interpreter_webhooks import InterpreterWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

WORKLOADS = Resource("example.io", "v1", "workloads", "Workload")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workloads.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"},
        "versions": [VERSION],
    },
}


def patch_of(path: str, value: Any) -> Raw:
    operations = [{"op": "add", "path": path, "value": value}]
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


class ExampleWebhook:
    """The replicas are in `spec.size`; an object is healthy when `spec.size` equals `spec.ready`."""

    def __init__(self) -> None:
        self.fails = 0
        self.calls: list[str] = []

    async def __call__(self, _: InterpreterWebhooks, question: WebhookQuestion) -> Raw | InterpreterFailure:
        await asyncio.sleep(0.5)
        self.calls.append(question.operation)
        if self.fails:
            self.fails -= 1
            return InterpreterFailure("WebhookUnavailable", "refused")
        spec = question.request["object"]["spec"]
        answers: dict[str, Raw] = {
            "InterpretReplica": {"replicas": spec["size"]},
            "ReviseReplica": patch_of("/spec/size", question.request.get("replicas")),
            "InterpretHealth": {"healthy": spec["size"] == spec.get("ready")},
        }
        return answers[question.operation]


async def create(fleet: EmbeddedFleet, api_version: str, kind: str, name: str, **body: Any) -> None:
    declared = find_kind(api_version, kind)
    assert declared is not None
    metadata = {"name": name, **({"namespace": "default"} if declared.namespaced else {})}
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
    await fleet.client.create(resource_of(declared), obj)


async def set_up(fleet: EmbeddedFleet) -> None:
    for client in (fleet.client, *(member.client for member in fleet.world)):
        await client.create(CRDS, CRD)
    operations = ["InterpretReplica", "ReviseReplica", "InterpretHealth"]
    rule = {"operations": operations, "apiGroups": ["example.io"], "apiVersions": ["v1"], "kinds": ["Workload"]}
    hook = {
        "name": "w.example.io",
        "rules": [rule],
        "clientConfig": {"url": "https://hook"},
        "interpreterContextVersions": ["v1alpha1"],
    }
    await create(
        fleet, "config.karmada.io/v1alpha1", "ResourceInterpreterWebhookConfiguration", "examples", webhooks=[hook]
    )
    weights = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    spec = {
        "resourceSelectors": [{"apiVersion": "example.io/v1", "kind": "Workload"}],
        "placement": {"replicaScheduling": weights},
    }
    await create(fleet, "policy.karmada.io/v1alpha1", "PropagationPolicy", "all", spec=spec)


@pytest.mark.parametrize("failures", [0, 3])
def test_webhook_interprets_replicas_and_health_even_after_failures(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    webhook = ExampleWebhook()
    webhook.fails = failures

    async def call(calls: InterpreterWebhooks, question: WebhookQuestion) -> Raw | InterpreterFailure:
        return await webhook(calls, question)

    monkeypatch.setattr(InterpreterWebhooks, "call", call)

    async def run() -> None:
        host = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await host.start()
        members = tuple(MemberPlan(name=name, nodes=1) for name in ("east", "west"))
        fleet = EmbeddedFleet(FleetPlan(members=members), host=host, clock=LoopClock())
        await fleet.start()
        await asyncio.sleep(30)
        await set_up(fleet)
        await asyncio.sleep(30)
        body = {"apiVersion": "example.io/v1", "kind": "Workload", "metadata": {"name": "w", "namespace": "default"}}
        await fleet.client.create(WORKLOADS, {**body, "spec": {"size": 4, "ready": 2}})
        await asyncio.sleep(120)
        binding = await fleet.client.get(BINDINGS, "default", "w-workload")
        assert binding["spec"]["replicas"] == 4
        found = [await member.client.get(WORKLOADS, "default", "w") for member in fleet.world]
        assert [one["spec"]["size"] for one in found] == [2, 2]
        assert {one["health"] for one in binding["status"]["aggregatedStatus"]} == {"Healthy"}
        calls = len(webhook.calls)
        await asyncio.sleep(600)
        assert len(webhook.calls) == calls  # a settled fleet asks nothing
        await fleet.stop()
        await host.stop()

    run_virtually(run())
