"""The parts of a control plane that the application assembles itself: which members it judges, its metrics, the path of a rule."""

import asyncio
import sys
from types import FrameType

import pytest

from trimtab.api.kinds.cluster import Taint
from trimtab.app import ControlPlane
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers import well_known
from trimtab.embedded_fleet import endpoint_of
from trimtab.plugins.filters import taint_toleration
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store
from trimtab.telemetry import format_histograms, format_metrics

BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)


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


async def decide_about_a_tainted_cluster(*, karmada_metrics: bool = False) -> str:
    """A binding that fits nowhere; returns the metrics of the control plane that decided about it."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    labels = {well_known.POLICY_ID_LABELS[0]: "an-id"}
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "default", "labels": labels},
        "spec": {"resource": resource, "replicas": 1, "placement": {"clusterAffinity": {"clusterNames": ["east"]}}},
    }
    cluster = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": "east"}}
    taints = [{"key": "maintenance", "effect": "NoSchedule"}]
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    user = LocalClient(server)
    await user.create(CLUSTERS, {**cluster, "spec": {"syncMode": "Push", "taints": taints}})
    plane = ControlPlane(LocalClient(server), clock=LoopClock(), karmada_metrics=karmada_metrics)
    await plane.start()
    await user.create(BINDINGS, binding)
    await asyncio.sleep(20)
    metrics = format_metrics(plane.samples()) + format_histograms(plane.histograms())
    await plane.stop()
    await server.stop()
    return metrics


def test_metrics_under_the_names_of_karmada_are_served_on_request() -> None:
    labels = '{result="error",schedule_type="ReconcileSchedule"}'
    served = run_virtually(decide_about_a_tainted_cluster(karmada_metrics=True))
    assert f"karmada_scheduler_schedule_attempts_total{labels}" in served
    assert f"karmada_scheduler_e2e_scheduling_duration_seconds_count{labels}" in served
    assert 'binding_sync_work_duration_seconds_count{result="success"}' in served
    assert 'result="scheduled"' not in served, "no cluster fits"
    without = run_virtually(decide_about_a_tainted_cluster())
    assert not any(name in without for name in ("karmada_scheduler_", "binding_sync_work_", "cluster_ready_state"))


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
