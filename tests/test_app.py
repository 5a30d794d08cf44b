"""The parts of a control plane that the application assembles itself: credentials, debug pages, metrics."""

import asyncio

import pytest

from trimtab.app import ControlPlane, debug_action, endpoint_of, scripts_of
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.request.messages import Request
from trimtab.store.store import Store

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


def test_scripts_are_found_in_every_rule_of_a_customization() -> None:
    rules = {"a": {"luaScript": "one"}, "b": {"luaScript": ""}, "c": None, "d": {"luaScript": "two"}}
    assert scripts_of({"spec": {"customizations": rules}}) == ["one", "two"]
    assert scripts_of({}) == []


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/debug/placements/team/p", "get"),
        ("POST", "/debug/placements/team/p", "create"),
        ("PUT", "/debug/placements/team/p", None),
        ("GET", "/debug/placements/team", None),
        ("GET", "/debug/bindings/team/p", None),
    ],
)
def test_debug_page_of_a_placement_needs_the_permission_of_its_method(method: str, path: str, verb: str | None) -> None:
    action = debug_action(Request(method, path, {}, {}))
    assert (action.verb if action is not None else None) == verb
    if action is not None:
        assert (action.resource, action.namespace, action.name) == ("placements", "team", "p")


def test_metrics_report_whether_each_cluster_is_ready() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        plane = ControlPlane(LocalClient(server), clock=LoopClock())
        await plane.start()
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "east"}}
        await LocalClient(server).create(CLUSTERS, {**body, "spec": {"syncMode": "Push"}})
        await asyncio.sleep(30)
        found = [sample for sample in plane.samples() if sample.name == "trimtab_cluster_ready"]
        assert [(sample.labels, sample.value) for sample in found] == [({"member_cluster": "east"}, False)]
        await plane.stop()
        await server.stop()

    run_virtually(run())


def test_control_plane_does_not_judge_a_member_that_another_process_simulates() -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        user = LocalClient(server)
        spec = {"syncMode": "Push", "apiEndpoint": endpoint_of("east")}
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "east"}, "spec": spec}
        await user.create(CLUSTERS, body)
        since = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": since}
        await user.patch(CLUSTERS, "", "east", {"status": {"conditions": [ready]}}, subresource="status")
        plane = ControlPlane(LocalClient(server), clock=LoopClock())
        await plane.start()
        await asyncio.sleep(600)
        found = await user.get(CLUSTERS, "", "east")
        assert [one["status"] for one in found["status"]["conditions"] if one["type"] == "Ready"] == ["True"]
        assert not found["spec"].get("taints")
        await plane.stop()
        await server.stop()

    run_virtually(run())
