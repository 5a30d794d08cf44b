"""The parts of a control plane that the application assembles itself: which members it judges, its metrics, the path of a rule."""

import asyncio
import sys
from types import FrameType

import pytest

from test_observability import decide_about_a_tainted_cluster
from trimtab.api.kinds.cluster import Taint
from trimtab.app import ControlPlane
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import endpoint_of
from trimtab.plugins.filters import taint_toleration
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


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


PATH_OF_THE_TAINT_RULE = [
    "trimtab.runtime.reconciler",
    "trimtab.runtime.controller_call",
    "trimtab.controllers.propagation.scheduling.schedule",
    "trimtab.decide.karmada",
    "trimtab.decide.pipeline",
    "trimtab.decide.framework",
]
"""ARCHITECTURE.md names them."""
MEMORIES = {"trimtab.api.lazy", "trimtab.decide.fleet"}
"""They call what computes a value only once, and decide nothing."""


def modules_that_called(frame: FrameType | None) -> list[str]:
    """The modules of this package on the stack, the outermost first, each once."""
    names: list[str] = []
    while frame is not None:
        names.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return list(dict.fromkeys(name for name in reversed(names) if name.startswith("trimtab.")))


def test_a_rule_is_reached_from_the_queue_through_six_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[list[str]] = []
    format_taint = taint_toleration.format_taint

    def record(taint: Taint) -> str:
        paths.append(modules_that_called(sys._getframe(1)))
        return format_taint(taint)

    monkeypatch.setattr(taint_toleration, "format_taint", record)
    run_virtually(decide_about_a_tainted_cluster())
    assert paths
    for path in paths:
        between = path[path.index(PATH_OF_THE_TAINT_RULE[0]) : path.index(taint_toleration.__name__)]
        assert [name for name in between if name not in MEMORIES] == PATH_OF_THE_TAINT_RULE
