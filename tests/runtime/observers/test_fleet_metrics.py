"""Metrics about the fleet follow the caches; times are observed when something changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.native.lease import Lease
from trimtab.api.kinds.work import ResourceBinding
from trimtab.client.client import resource_of
from trimtab.runtime.cache import Table
from trimtab.runtime.observers.fleet_metrics import FleetMetrics
from trimtab.telemetry import format_histograms, format_metrics

START = datetime(2026, 1, 1, tzinfo=UTC)


class FixedClock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time


def raw(type_: Any, name: str, revision: int, **content: Any) -> dict[str, Any]:
    kind = kind_of(type_)
    metadata = {"name": name, "resourceVersion": str(revision), "creationTimestamp": "2026-01-01T00:00:00Z"}
    if kind.namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **content}


def binding(revision: int, **conditions: str) -> dict[str, Any]:
    listed = [{"type": type_, "status": status, "reason": "x"} for type_, status in conditions.items()]
    spec = {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    return raw(ResourceBinding, "web-deployment", revision, spec=spec, status={"conditions": listed})


def move(revision: int, outcome: str = "", finished: datetime | None = None) -> dict[str, Any]:
    spec = {
        "object": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "cause": "Failover",
        "from": "member1",
        "replicas": 1,
    }
    status = {"outcome": outcome, "started": "2026-01-01T00:00:00.000000Z"}
    if finished:
        status["finished"] = finished.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return raw(Move, "m", revision, spec=spec, status=status)


class FilledCache:
    """Tables without a server behind them."""

    def __init__(self, types: tuple[Any, ...]) -> None:
        self._tables = {kind_of(type_).id: Table(resource_of(kind_of(type_))) for type_ in types}

    def find_table(self, id_: str) -> Table | None:
        return self._tables.get(id_)

    def put(self, type_: Any, obj: dict[str, Any]) -> None:
        self._tables[kind_of(type_).id].put(obj)


def metrics_of(*types: Any) -> tuple[FleetMetrics, FilledCache, FixedClock]:
    cache, clock = FilledCache(types), FixedClock()
    metrics = FleetMetrics(cache, clock)
    metrics.watch()
    return metrics, cache, clock


def test_clusters_are_sampled_by_member_and_under_the_names_of_karmada() -> None:
    metrics, cache, _ = metrics_of(Cluster)
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "x"}],
        "nodeSummary": {"totalNum": 3, "readyNum": 2},
        "resourceSummary": {"allocatable": {"cpu": "12", "memory": "1Gi"}, "allocated": {"cpu": "500m"}},
    }
    cache.put(Cluster, raw(Cluster, "member1", 1, spec={"syncMode": "Push"}, status=status))
    assert 'trimtab_cluster_ready{member_cluster="member1"} 1' in format_metrics(metrics.samples())
    named_as_karmada = format_metrics(metrics.karmada_samples())
    for line in (
        'cluster_ready_state{member_cluster="member1"} 1',
        'cluster_node_number{member_cluster="member1"} 3',
        'cluster_cpu_allocatable_number{member_cluster="member1"} 12',
        'cluster_memory_allocatable_bytes{member_cluster="member1"} 1073741824',
        'cluster_cpu_allocated_number{member_cluster="member1"} 0.5',
        "# HELP cluster_node_number",
    ):
        assert line in named_as_karmada


def test_propagation_is_observed_once_when_a_workload_is_first_applied() -> None:
    metrics, cache, clock = metrics_of(ResourceBinding)
    cache.put(ResourceBinding, binding(1))
    clock.time = START + timedelta(seconds=4)
    cache.put(ResourceBinding, binding(2, Scheduled="True", FullyApplied="True"))
    clock.time = START + timedelta(hours=1)
    cache.put(ResourceBinding, binding(3, Scheduled="True", FullyApplied="False"))
    cache.put(ResourceBinding, binding(4, Scheduled="True", FullyApplied="True"))
    text = format_histograms(metrics.histograms())
    assert "trimtab_propagation_duration_seconds_count 1" in text
    assert "trimtab_propagation_duration_seconds_sum 4.000000" in text
    assert 'trimtab_workloads{state="all"} 1' in format_metrics(metrics.samples())


def test_ended_moves_are_counted_and_timed_by_cause() -> None:
    metrics, cache, clock = metrics_of(Move)
    cache.put(Move, move(1))
    clock.time = START + timedelta(minutes=5)
    assert "trimtab_oldest_move_age_seconds 300" in format_metrics(metrics.samples())
    cache.put(Move, move(2, "Done", START + timedelta(seconds=20)))
    cache.put(Move, move(3, "Done", START + timedelta(seconds=20)))
    samples = format_metrics(metrics.samples())
    assert 'trimtab_moves_ended_total{cause="Failover",outcome="Done"} 1' in samples
    assert "trimtab_oldest_move_age_seconds 0" in samples
    text = format_histograms(metrics.histograms())
    assert 'trimtab_move_duration_seconds_bucket{cause="Failover",le="30"} 1' in text
    assert 'trimtab_move_duration_seconds_count{cause="Failover"} 1' in text


def test_time_of_the_last_backup_is_that_of_its_lease() -> None:
    metrics, cache, _ = metrics_of(Lease)
    other = raw(Lease, "trimtab-controllers", 1, spec={"renewTime": "2026-01-01T00:00:00.000000Z"})
    cache.put(Lease, {**other, "metadata": {**other["metadata"], "namespace": "kube-system"}})
    name = "trimtab_last_backup_timestamp_seconds"
    assert name not in format_metrics(metrics.samples())
    lease = raw(Lease, "trimtab-backup", 2, spec={"renewTime": "2026-01-01T00:00:05.000000Z"})
    cache.put(Lease, {**lease, "metadata": {**lease["metadata"], "namespace": "kube-system"}})
    assert f"{name} {START.timestamp() + 5:.15g}\n" in format_metrics(metrics.samples())


def test_kinds_that_no_controller_watches_are_not_watched_for_metrics() -> None:
    metrics, _, _ = metrics_of()
    assert 'trimtab_workloads{state="all"} 0' in format_metrics(metrics.samples())
