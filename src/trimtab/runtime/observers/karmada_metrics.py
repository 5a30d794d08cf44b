"""Durations and counts of reconciles under the names that Karmada uses, for its dashboards and alerts.

Only names are served whose meaning is the same: the time from the start of a reconcile until its writes have ended, writes in
members, probes of members, and bindings that wait for a decision. What Karmada measures inside of a reconcile, such as the search
for a policy or single plugins, has no figure here and is not served.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers.conditions import find_condition
from trimtab.decide.reschedule_trigger import has_placement_changed, have_replicas_changed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile, MemberWrite
from trimtab.telemetry import Histogram, HistogramSeries, Sample

BOUNDS = tuple(0.001 * 2**power for power in range(12))
SCHEDULING_BOUNDS = tuple(0.001 * 2**power for power in range(15))
AUTOSCALING_BOUNDS = tuple(0.01 * 2**power for power in range(12))
"""Karmada's own bounds: its objectives are on these."""
SYNC_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WRITES = {
    "create": "create_resource_to_cluster",
    "update": "update_resource_to_cluster",
    "delete": "delete_resource_from_cluster",
}
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
    """Observes reconciles."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
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

    def histograms(self) -> Iterator[HistogramSeries]:
        for name, labels in sorted(self._histograms):
            yield name, dict(labels), self._histograms[name, labels]


def _result_labels(done: FinishedReconcile) -> Labels:
    return (("result", "error" if done.failure else "success"),)
