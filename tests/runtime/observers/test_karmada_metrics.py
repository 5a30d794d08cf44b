"""Reconciles are served under Karmada's names only where they mean the same."""

from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.observers.test_fleet_metrics import FilledCache, binding, raw
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers.contract import Ref, controllers
from trimtab.controllers.movement.taint_eviction import EVICTION_SLOT
from trimtab.runtime.cache import CacheEntry
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.observers.karmada_metrics import MEASURED, KarmadaMetrics
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile, MemberWrite
from trimtab.runtime.observers.step_times import FinishedStep
from trimtab.runtime.process_memory import ProcessMemory
from trimtab.telemetry import METRICS, format_histograms, format_metrics

KEY = Key(kind_of(ResourceBinding).id, "default", "web-deployment")
SECOND = 1_000_000_000


def finished(controller: str, *, failure: str = "", had_effects: bool = True, before: Any = None) -> FinishedReconcile:
    entry = CacheEntry(before, kind_of(ResourceBinding)) if before is not None else None
    return FinishedReconcile(controller, KEY, entry, SECOND, SECOND * 3 // 2, had_effects, failure)


def metrics_of(*reconciles: FinishedReconcile, now: Any = None) -> str:
    cache = FilledCache((ResourceBinding,))
    if now is not None:
        cache.put(ResourceBinding, now)
    metrics = KarmadaMetrics(cache, ProcessMemory())  # type: ignore[arg-type]
    for one in reconciles:
        metrics.observe(one)
    return format_metrics(metrics.samples()) + format_histograms(metrics.histograms())


def test_duration_is_counted_by_result_with_the_bounds_of_karmada() -> None:
    text = metrics_of(finished("execute"), finished("execute"), finished("execute", failure="Forbidden"))
    assert 'work_sync_workload_duration_seconds_bucket{result="success",le="0.256"} 0' in text
    assert 'work_sync_workload_duration_seconds_bucket{result="success",le="0.512"} 2' in text
    assert 'work_sync_workload_duration_seconds_sum{result="success"} 1.000000' in text
    assert 'work_sync_workload_duration_seconds_count{result="error"} 1' in text
    assert text.count("# TYPE work_sync_workload_duration_seconds histogram") == 1


def test_template_that_no_policy_concerns_is_no_attempt() -> None:
    text = metrics_of(finished("detect", had_effects=False), finished("detect"), finished("detect", failure="Conflict"))
    assert 'policy_apply_attempts_total{result="success"} 1' in text
    assert 'policy_apply_attempts_total{result="error"} 1' in text
    assert 'resource_apply_policy_duration_seconds_count{result="success"} 1' in text


def scheduled(status: str, replicas: int, placed: int) -> dict[str, Any]:
    placement = {"replicaScheduling": {"replicaSchedulingType": "Divided"}}
    changed = binding(1, Scheduled=status)
    changed["spec"] |= {"placement": placement, "replicas": replicas, "clusters": [{"name": "m1", "replicas": placed}]}
    annotation = '{"replicaScheduling":{"replicaSchedulingType":"Divided"}}'
    changed["metadata"]["annotations"] = {"policy.karmada.io/applied-placement": annotation}
    return changed


@pytest.mark.parametrize(
    ("before", "status", "labels"),
    [
        (binding(1), "True", 'result="scheduled",schedule_type="ReconcileSchedule"'),
        (binding(1), "False", 'result="error",schedule_type="ReconcileSchedule"'),
        (scheduled("True", 5, 3), "True", 'result="scheduled",schedule_type="ScaleSchedule"'),
        (scheduled("True", 3, 3), "True", 'result="scheduled",schedule_type="ReconcileSchedule"'),
    ],
)
def test_decision_is_counted_by_its_result_and_type(before: Any, status: str, labels: str) -> None:
    text = metrics_of(finished("schedule", before=before), now=binding(2, Scheduled=status))
    assert f"karmada_scheduler_schedule_attempts_total{{{labels}}} 1" in text
    assert f"karmada_scheduler_e2e_scheduling_duration_seconds_count{{{labels}}} 1" in text


def test_controllers_without_a_name_in_karmada_are_not_served() -> None:
    assert "budget" not in metrics_of(finished("budget"))
    assert metrics_of(finished("budget")) == metrics_of()


def test_measured_controllers_exist_and_their_metrics_are_declared() -> None:
    load_declarations()
    assert MEASURED.keys() <= {one.name for one in controllers.values()}
    names = {name for one in MEASURED.values() for name in (one.duration, one.attempts) if name}
    assert names <= METRICS.keys()


def test_eviction_is_counted_for_the_queue_of_its_kind() -> None:
    text = metrics_of(
        finished("taint_eviction"),
        finished("taint_eviction", failure="Conflict"),
        finished("taint_eviction", had_effects=False),
    )
    assert 'eviction_processing_total{name="binding-eviction",result="success"} 1' in text
    assert 'eviction_processing_total{name="binding-eviction",result="error"} 1' in text
    assert 'eviction_processing_latency_seconds_count{name="binding-eviction"} 2' in text


def test_writes_and_probes_of_members_are_counted_by_cluster() -> None:
    metrics = KarmadaMetrics(FilledCache((ResourceBinding,)), ProcessMemory())  # type: ignore[arg-type]
    for verb, failed in (("create", False), ("update", False), ("update", True), ("delete", False), ("create", False)):
        metrics.count_write(MemberWrite(verb, "m1", "apps/v1", "Deployment", failed))  # type: ignore[arg-type]
    metrics.observe_probe("m1", 0.3)
    text = format_metrics(metrics.samples()) + format_histograms(metrics.histograms())
    about = 'apiversion="apps/v1",kind="Deployment",member_cluster="m1"'
    assert f'create_resource_to_cluster{{result="success",{about}}} 2' in text
    assert f'update_resource_to_cluster{{result="success",{about},operationResult="updated"}} 1' in text
    assert f'update_resource_to_cluster{{result="error",{about},operationResult="none"}} 1' in text
    assert f'delete_resource_from_cluster{{result="success",{about}}} 1' in text
    assert 'cluster_sync_status_duration_seconds_bucket{member_cluster="m1",le="0.25"} 0' in text
    assert 'cluster_sync_status_duration_seconds_bucket{member_cluster="m1",le="0.5"} 1' in text


def test_bindings_are_counted_when_they_come_and_when_their_spec_changes() -> None:
    cache = FilledCache((ResourceBinding,))
    metrics = KarmadaMetrics(cache, ProcessMemory())  # type: ignore[arg-type]
    metrics.watch()
    for revision, generation in ((1, 1), (2, 1), (3, 2)):
        changed = binding(revision)
        changed["metadata"]["generation"] = generation
        cache.put(ResourceBinding, changed)
    text = format_metrics(metrics.samples())
    assert 'karmada_scheduler_queue_incoming_bindings_total{event="BindingAdd"} 1' in text
    assert 'karmada_scheduler_queue_incoming_bindings_total{event="BindingUpdate"} 1' in text


def test_steps_and_plugins_are_observed_with_the_bounds_of_karmada() -> None:
    metrics = KarmadaMetrics(FilledCache(()), ProcessMemory())  # type: ignore[arg-type]
    for done in (
        FinishedStep("Filter", "TaintToleration", 0.00002, succeeded=False),
        FinishedStep("Filter", "", 0.00015, succeeded=False),
        FinishedStep("Score", "", 0.0005, succeeded=True),
        FinishedStep("Select", "", 0.003, succeeded=True),
        FinishedStep("MatchPolicy", "", 0.0015, succeeded=True),
    ):
        metrics.observe_step(done)
    text = format_histograms(metrics.histograms())
    scheduler = "karmada_scheduler_"
    plugin = 'plugin="TaintToleration",extension_point="Filter",result="Unschedulable"'
    assert f'{scheduler}plugin_execution_duration_seconds_bucket{{{plugin},le="1.5000000000000002e-05"}} 0' in text
    assert f'{scheduler}plugin_execution_duration_seconds_bucket{{{plugin},le="2.2500000000000005e-05"}} 1' in text
    point = 'extension_point="Filter",result="Unschedulable"'
    assert f'{scheduler}framework_extension_point_duration_seconds_bucket{{{point},le="0.0001"}} 0' in text
    assert f'{scheduler}framework_extension_point_duration_seconds_bucket{{{point},le="0.0002"}} 1' in text
    assert (
        f'{scheduler}framework_extension_point_duration_seconds_count{{extension_point="Score",result="Success"}} 1'
        in text
    )
    assert 'extension_point="Select"' not in text
    for step in ("Filter", "Score", "Select"):
        assert f'{scheduler}scheduling_algorithm_duration_seconds_count{{schedule_step="{step}"}} 1' in text
    assert 'resource_match_policy_duration_seconds_bucket{le="0.001"} 0' in text
    assert 'resource_match_policy_duration_seconds_bucket{le="0.002"} 1' in text


def test_evictions_wait_from_their_booking_until_they_are_carried_out() -> None:
    cache, memory = FilledCache((ResourceBinding, Cluster)), ProcessMemory()
    metrics = KarmadaMetrics(cache, memory)  # type: ignore[arg-type]
    kind = kind_of(ResourceBinding)
    ref = Ref(kind.api_version, kind.name, "default", "web-deployment")
    taint = {"key": "cluster.karmada.io/not-ready", "effect": "NoExecute"}
    placed = binding(1)
    placed["spec"]["clusters"] = [{"name": "m1"}, {"name": "m2"}]
    cache.put(ResourceBinding, placed)
    cache.put(Cluster, raw(Cluster, "m1", 2, spec={"syncMode": "Push", "taints": [taint]}))
    cache.put(Cluster, raw(Cluster, "m2", 3, spec={"syncMode": "Push"}))
    idle = 'eviction_queue_depth{name="binding-eviction"} 0'
    assert idle in format_metrics(metrics.samples())
    memory.remember(EVICTION_SLOT, ref, datetime(2026, 1, 1, tzinfo=UTC))
    text = format_metrics(metrics.samples())
    assert 'eviction_queue_depth{name="binding-eviction"} 1' in text
    assert 'eviction_queue_depth{name="cluster-binding-eviction"} 0' in text
    assert 'eviction_kind_total{member_cluster="m1",resource_kind="Deployment"} 1' in text
    assert 'member_cluster="m2"' not in text
    memory.remember(EVICTION_SLOT, ref, None)
    assert idle in format_metrics(metrics.samples())
    memory.remember(EVICTION_SLOT, ref, datetime(2026, 1, 1, tzinfo=UTC))
    cache.put(Cluster, raw(Cluster, "m1", 4, spec={"syncMode": "Push"}))
    assert idle in format_metrics(metrics.samples()), "the taint is gone, nothing is evicted any more"
