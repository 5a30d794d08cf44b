"""A slow script of a user delays what it interprets, and nothing else."""

import asyncio
from collections.abc import Sequence
from typing import Any

from trimtab.api.kind import find_kind
from trimtab.api.value import Raw
from trimtab.client.client import Resource, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult, run_script
from trimtab.interpret.operations import InterpreterFailure
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.request.messages import Request
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
HEALTH = "function InterpretHealth(o) return o.metadata.name ~= 'web-3' end"
DEPLOYMENTS = [f"web-{number}" for number in range(8)]


class GatedScripts:
    """Runs no script before the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(
        self, script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        await self.gate.wait()
        return run_script(script, hook, arguments, limits)


async def create(fleet: EmbeddedFleet, api_version: str, kind: str, name: str, **body: Any) -> None:
    declared = find_kind(api_version, kind)
    assert declared is not None
    metadata = {"name": name, **({"namespace": "default"} if declared.namespaced else {})}
    await fleet.client.create(
        resource_of(declared), {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
    )


async def create_policy(fleet: EmbeddedFleet, api_version: str, kind: str) -> None:
    selectors = [{"apiVersion": api_version, "kind": kind}]
    spec = {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["east"]}}}
    await create(fleet, "policy.karmada.io/v1alpha1", "PropagationPolicy", kind.lower(), spec=spec)


async def create_deployment(fleet: EmbeddedFleet, name: str) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    await create(fleet, "apps/v1", "Deployment", name, spec=spec)


async def health_by_workload(fleet: EmbeddedFleet) -> dict[str, str]:
    declared = find_kind("work.karmada.io/v1alpha1", "Work")
    assert declared is not None
    works: list[Raw] = (await fleet.client.list(resource_of(declared))).items
    found = {}
    for work in works:
        for status in (work.get("status") or {}).get("manifestStatuses") or ():
            if status["identifier"]["kind"] == "Deployment":
                found[status["identifier"]["name"]] = status["health"]
    return found


def test_slow_health_script_blocks_neither_the_server_nor_other_objects() -> None:
    async def run() -> None:
        clock, scripts = LoopClock(), GatedScripts()
        host = ApiServer(Store(), ApiServerSettings(clock=clock))
        await host.start()
        fleet = EmbeddedFleet(FleetPlan(members=(MemberPlan(name="east"),)), host=host, clock=clock, scripts=scripts)
        await fleet.start()
        spec = {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"healthInterpretation": {"luaScript": HEALTH}},
        }
        await create(fleet, "config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", "health", spec=spec)
        for api_version, kind in (("apps/v1", "Deployment"), ("v1", "ConfigMap")):
            await create_policy(fleet, api_version, kind)
        for name in DEPLOYMENTS:
            await create_deployment(fleet, name)
        await asyncio.sleep(60)
        assert await health_by_workload(fleet) == {}, "a reconcile without an answer writes nothing"
        await create(fleet, "v1", "ConfigMap", "settings", data={"a": "b"})
        await asyncio.sleep(60)
        assert (await fleet.world["east"].client.get(CONFIG_MAPS, "default", "settings"))["data"] == {"a": "b"}
        assert (await host.handler.handle(Request("GET", "/healthz", {}, {}))).code == 200
        scripts.gate.set()
        await asyncio.sleep(60)
        expected = {name: "Unhealthy" if name == "web-3" else "Healthy" for name in DEPLOYMENTS}
        assert await health_by_workload(fleet) == expected
        await fleet.stop()
        await host.stop()

    run_virtually(run())
