"""Durations and counts of reconciles under the names that Karmada uses, for its dashboards and alerts.

Only names are served whose meaning is the same: the time from the start of a reconcile until its writes have ended, writes in
members, probes of members, bindings that wait for a decision or for their eviction, the search for a policy, and the steps and
plugins of a decision. Filters and scores are arrays over all clusters, most of them cached: a step is measured once for a binding and
not for every cluster, and a plugin only when it runs.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple, cast

from trimtab.api.kind import find_kind, kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement.taint_eviction import EVICTION_SLOT, no_execute_taints
from trimtab.controllers.propagation.policy_matching import MATCH_POLICY
from trimtab.decide.observed_attempt import FILTER, SCORE
from trimtab.decide.reschedule_trigger import has_placement_changed, have_replicas_changed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile, MemberWrite
from trimtab.runtime.observers.step_times import FinishedStep
from trimtab.runtime.process_memory import ProcessMemory
from trimtab.telemetry import Histogram, HistogramSeries, Sample

BOUNDS = tuple(0.001 * 2**power for power in range(12))
SCHEDULING_BOUNDS = tuple(0.001 * 2**power for power in range(15))
EXTENSION_POINT_BOUNDS = tuple(0.0001 * 2**power for power in range(12))
PLUGIN_BOUNDS = tuple(accumulate(repeat(1.5, 19), mul, initial=0.00001))
AUTOSCALING_BOUNDS = tuple(0.01 * 2**power for power in range(12))
"""Karmada's own bounds: its objectives are on these."""
SYNC_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WRITES = {
    "create": "create_resource_to_cluster",
    "update": "update_resource_to_cluster",
    "delete": "delete_resource_from_cluster",
}
MATCH_DURATION = "resource_match_policy_duration_seconds"
ALGORITHM_DURATION = "karmada_scheduler_scheduling_algorithm_duration_seconds"
EXTENSION_POINT_DURATION = "karmada_scheduler_framework_extension_point_duration_seconds"
PLUGIN_DURATION = "karmada_scheduler_plugin_execution_duration_seconds"
EXTENSION_POINTS = (FILTER, SCORE)
INCOMING = "karmada_scheduler_queue_incoming_bindings_total"
EVICTION_QUEUES = {
    kind_of(ResourceBinding).id: "binding-eviction",
    kind_of(ClusterResourceBinding).id: "cluster-binding-eviction",
}
Labels = tuple[tuple[str, str], ...]


class Measured(NamedTuple):
    """What is served about the reconciles of one controller."""

    duration: str
    bounds: tuple[float, ...] = BOUNDS
    attempts: str = ""
    only_with_effects: bool = False
    """Karmada counts only what it had to apply or to decide; every look at an object is no attempt."""


MEASURED = {
    "detect": Measured("resource_apply_policy_duration_seconds", BOUNDS, "policy_apply_attempts_total", True),
    "schedule": Measured(
        "karmada_scheduler_e2e_scheduling_duration_seconds",
        SCHEDULING_BOUNDS,
        "karmada_scheduler_schedule_attempts_total",
        True,
    ),
    "taint_eviction": Measured(
        "eviction_processing_latency_seconds", SCHEDULING_BOUNDS, "eviction_processing_total", True
    ),
    "dispatch": Measured("binding_sync_work_duration_seconds"),
    "execute": Measured("work_sync_workload_duration_seconds"),
    "federated_hpa": Measured("federatedhpa_process_duration_seconds", AUTOSCALING_BOUNDS),
    "cron_federated_hpa": Measured("cronfederatedhpa_process_duration_seconds"),
}


class KarmadaMetrics:
    """Observes reconciles, their steps, and what waits for its eviction."""

    def __init__(self, cache: Cache, memory: ProcessMemory) -> None:
        self._cache = cache
        self._memory = memory
        self._histograms: dict[tuple[str, Labels], Histogram] = {}
        self._attempts: Counter[tuple[str, Labels]] = Counter()

    def observe(self, done: FinishedReconcile) -> None:
        measured = MEASURED.get(done.controller)
        if measured is None or (measured.only_with_effects and not (done.had_effects or done.failure)):
            return
        labels = timed = _result_labels(done)
        if done.controller == "schedule":
            labels = timed = self._scheduling_labels(done)
            if labels[0] == ("result", "error"):
                self._attempts[INCOMING, (("event", "ScheduleAttemptFailure"),)] += 1
        elif done.controller == "taint_eviction":
            timed = (("name", EVICTION_QUEUES[done.key.kind]),)
            labels = (*timed, *labels)
        self._observe(measured.duration, timed, measured.bounds, done.seconds)
        if measured.attempts:
            self._attempts[measured.attempts, labels] += 1

    def observe_step(self, done: FinishedStep) -> None:
        """Observe a step of a reconcile, or a plugin within it."""
        if done.step == MATCH_POLICY:
            self._observe(MATCH_DURATION, (), BOUNDS, done.seconds)
            return
        result = ("result", "Success" if done.succeeded else "Unschedulable")
        point = ("extension_point", done.step)
        if done.plugin:
            self._observe(PLUGIN_DURATION, (("plugin", done.plugin), point, result), PLUGIN_BOUNDS, done.seconds)
            return
        self._observe(ALGORITHM_DURATION, (("schedule_step", done.step),), SCHEDULING_BOUNDS, done.seconds)
        if done.step in EXTENSION_POINTS:
            self._observe(EXTENSION_POINT_DURATION, (point, result), EXTENSION_POINT_BOUNDS, done.seconds)

    def _observe(self, name: str, labels: Labels, bounds: tuple[float, ...], seconds: float) -> None:
        histogram = self._histograms.get((name, labels))
        if histogram is None:
            histogram = self._histograms[name, labels] = Histogram(bounds)
        histogram.observe(seconds)

    def watch(self) -> None:
        """Count bindings that become subject to a decision from now on."""
        for type_ in (ResourceBinding, ClusterResourceBinding):
            if table := self._cache.find_table(kind_of(type_).id):
                table.add_listener(self._binding_changed)

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            return
        if old is None:
            event = "BindingAdd"
        elif old.raw["metadata"].get("generation") != new.raw["metadata"].get("generation"):
            event = "BindingUpdate"
        else:
            return
        self._attempts[INCOMING, (("event", event),)] += 1

    def count_write(self, write: MemberWrite) -> None:
        """Count a write in a member."""
        labels: Labels = (
            ("result", "error" if write.failed else "success"),
            ("apiversion", write.api_version),
            ("kind", write.kind),
            ("member_cluster", write.cluster),
        )
        if write.verb == "update":
            labels = (*labels, ("operationResult", "none" if write.failed else "updated"))
        self._attempts[WRITES[write.verb], labels] += 1

    def observe_probe(self, cluster: str, seconds: float) -> None:
        """Observe how long it took to read the state of a member."""
        self._observe("cluster_sync_status_duration_seconds", (("member_cluster", cluster),), SYNC_BOUNDS, seconds)

    def _scheduling_labels(self, done: FinishedReconcile) -> Labels:
        """The result as the binding has it now: that no cluster fits is an error as well."""
        before = cast("Binding", done.entry.typed) if done.entry is not None else None
        is_scaled = before is not None and not has_placement_changed(before) and have_replicas_changed(before)
        after = self._find_binding(done.key)
        condition = find_condition(after.status.conditions, "Scheduled") if after is not None else None
        is_failed = bool(done.failure) or (condition is not None and condition.status != "True")
        type_ = "ScaleSchedule" if is_scaled else "ReconcileSchedule"
        return (("result", "error" if is_failed else "scheduled"), ("schedule_type", type_))

    def _find_binding(self, key: Key) -> Binding | None:
        table = self._cache.find_table(key.kind)
        entry = table.entries.get((key.namespace, key.name)) if table is not None else None
        return cast("Binding", entry.typed) if entry is not None else None

    def samples(self) -> Iterator[Sample]:
        for (name, labels), count in sorted(self._attempts.items()):
            yield Sample(name, count, dict(labels))
        yield from self._eviction_samples()

    def _eviction_samples(self) -> Iterator[Sample]:
        """What waits until the eviction rate allows it: by queue, and by cluster and kind of the workload."""
        depths = dict.fromkeys(EVICTION_QUEUES.values(), 0)
        kinds: Counter[tuple[str, str]] = Counter()
        for ref in self._memory.keys(EVICTION_SLOT):
            kind = find_kind(ref.api_version, ref.kind)
            if kind is None or self._memory.recall(EVICTION_SLOT, ref) is None:
                continue
            binding = self._find_binding(Key(kind.id, ref.namespace, ref.name))
            for cluster in self._tainted_clusters(binding) if binding is not None else ():
                depths[EVICTION_QUEUES[kind.id]] += 1
                kinds[cluster, cast("Binding", binding).spec.resource.kind] += 1
        for queue, depth in depths.items():
            yield Sample("eviction_queue_depth", depth, {"name": queue})
        for (cluster, kind_name), count in sorted(kinds.items()):
            labels = {"member_cluster": cluster, "resource_kind": kind_name}
            yield Sample("eviction_kind_total", count, labels)

    def _tainted_clusters(self, binding: Binding) -> Iterator[str]:
        table = self._cache.find_table(kind_of(Cluster).id)
        for target in binding.spec.clusters:
            entry = table.entries.get(("", target.name)) if table is not None else None
            if entry is not None and no_execute_taints(cast("Cluster", entry.typed)):
                yield target.name

    def histograms(self) -> Iterator[HistogramSeries]:
        for name, labels in sorted(self._histograms):
            yield name, dict(labels), self._histograms[name, labels]


def _result_labels(done: FinishedReconcile) -> Labels:
    return (("result", "error" if done.failure else "success"),)
