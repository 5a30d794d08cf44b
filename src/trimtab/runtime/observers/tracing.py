"""Traces: a span for every reconcile, and those of one workload in one trace, from apply to running.

The id of a workload's trace is derived from the uid and the generation of its template. So every process that works on it finds the
same trace without an annotation or a write: `detect` reads them in the template, the controllers of bindings in the template that
the binding names, `execute` in the annotations of the objects in the Work. The sampling decision is derived from the id, too.

    apply      the root: from the change of the template until `detect` takes it
    detect, schedule, dispatch, execute, aggregate, ...   one span per reconcile
    running    from the change of the template until all copies are healthy

A reconcile of anything else, such as a Cluster, is a trace of one span. Attributes name objects; they have nothing of their contents.
"""

import hashlib
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.value import Raw
from trimtab.client.otlp import Span
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.well_known import TEMPLATE_GENERATION, TEMPLATE_UID, annotations_of, cluster_of
from trimtab.runtime.cache import CacheEntry, Table
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile
from trimtab.runtime.view import ControlPlaneState

MAX_TRACES = 10_000
"""Workloads whose traces are followed at once; the oldest is forgotten first."""
MAX_SPANS_PER_TRACE = 1000
"""A workload that lives for long without a new generation must not become a trace that nothing can show."""
HEALTHY = "Healthy"


class TraceId(NamedTuple):
    """The trace of one generation of a workload."""

    trace_id: str
    root_id: str
    """The id of its first span, which is the parent of all others."""


def trace_of(uid: str, generation: int | str) -> TraceId:
    digest = hashlib.sha256(f"{uid}/{generation}".encode()).hexdigest()
    return TraceId(digest[:32], digest[32:48])


def is_sampled(trace_id: str, ratio: float) -> bool:
    """Whether the trace is among the share that is sent; the same in every process."""
    return int(trace_id[16:], 16) < ratio * 2**64


class FollowedTrace:
    """What is known of a trace while the process runs."""

    __slots__ = ("applied", "is_running", "spans")

    def __init__(self) -> None:
        self.applied = 0
        """When the template was seen to change; 0 if this process did not see it."""
        self.spans = 0
        self.is_running = False


class Tracer:
    """Turns finished reconciles and changes of the cache into spans."""

    def __init__(self, state: ControlPlaneState, export: Callable[[Span], None], ratio: float) -> None:
        self._state = state
        self._export = export
        self._ratio = ratio
        self._traces: OrderedDict[TraceId, FollowedTrace] = OrderedDict()
        self._seen: OrderedDict[TraceId, int] = OrderedDict()
        """When templates were seen to change that `detect` has not reconciled since."""
        self._watched = False
        self.spans_beyond_limit = 0

    def watch(self) -> None:
        """Observe changes from now on; what the caches hold already was applied before."""
        self._state.cache.add_table_listener(self._follow_table)
        self._watched = True

    def _follow_table(self, table: Table) -> None:
        if table.resource.id in (kind_of(ResourceBinding).id, kind_of(ClusterResourceBinding).id):
            table.add_listener(self._binding_changed)
        elif any(table.resource.id == resource.id for resource in self._state.resources.values()):
            table.add_listener(self._template_changed)

    def observe(self, done: FinishedReconcile) -> None:
        """Export the span of a reconcile."""
        trace = self._workload_trace(done)
        if trace is None:
            trace_id = f"{random.getrandbits(128) or 1:032x}"
            if is_sampled(trace_id, self._ratio):
                self._export(_reconcile_span(done, trace_id, ""))
            return
        if not is_sampled(trace.trace_id, self._ratio):
            return
        followed = self._follow(trace)
        if done.controller == "detect" and (seen := self._seen.pop(trace, 0)):
            followed.applied = seen
            ended = max(seen, done.started)
            self._export(Span(trace.trace_id, trace.root_id, "", "apply", seen, ended, _object_attributes(done)))
        if followed.spans >= MAX_SPANS_PER_TRACE:
            self.spans_beyond_limit += 1
            return
        followed.spans += 1
        self._export(_reconcile_span(done, trace.trace_id, trace.root_id))

    def _follow(self, trace: TraceId) -> FollowedTrace:
        followed = self._traces.get(trace)
        if followed is None:
            followed = self._traces[trace] = FollowedTrace()
            if len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
        return followed

    def _workload_trace(self, done: FinishedReconcile) -> TraceId | None:
        """The trace of the workload to which the object belongs; None if it belongs to none, or is deleted."""
        entry = done.entry
        if entry is None:
            return None
        if done.key.kind == kind_of(Work).id:
            return _trace_of_work(cast("Work", entry.typed))
        if done.key.kind in (kind_of(ResourceBinding).id, kind_of(ClusterResourceBinding).id):
            return self._trace_of_binding(cast("Binding", entry.typed))
        if done.controller == "detect":
            return _trace_of_template(self._claimed_template(done, entry).raw)
        return None

    def _claimed_template(self, done: FinishedReconcile, entry: CacheEntry) -> CacheEntry:
        """The template as the reconcile left it: the claim of a policy is an annotation, and can give a new generation."""
        table = self._state.cache.find_table(done.key.kind)
        current = table.entries.get((done.key.namespace, done.key.name)) if table is not None else None
        return current if current is not None and _differ_in_metadata_only(entry.raw, current.raw) else entry

    def _trace_of_binding(self, binding: Binding) -> TraceId | None:
        ref = binding.spec.resource
        resource = self._state.resources.get((ref.api_version, ref.kind))
        table = self._state.cache.find_table(resource.id) if resource is not None else None
        template = table.entries.get((ref.namespace, ref.name)) if table is not None else None
        return _trace_of_template(template.raw) if template is not None else None

    def _template_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if not self._watched or new is None:
            return
        trace = _trace_of_template(new.raw)
        earlier = _trace_of_template(old.raw) if old is not None else None
        if trace == earlier:
            return
        seen = time.time_ns()
        if old is not None and earlier is not None and _differ_in_metadata_only(old.raw, new.raw):
            seen = self._seen.pop(earlier, seen)  # `detect` claims the template, and its trace has not begun yet
        self._seen[trace] = seen
        if len(self._seen) > MAX_TRACES:
            self._seen.popitem(last=False)

    def _binding_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if not self._watched or new is None:
            return
        after = cast("Binding", new.typed)
        if not is_running(after) or (old is not None and is_running(cast("Binding", old.typed))):
            return
        trace = self._trace_of_binding(after)
        followed = self._traces.get(trace) if trace is not None else None
        if trace is None or followed is None or not followed.applied or followed.is_running:
            return
        followed.is_running = True
        ended = max(followed.applied, time.time_ns())
        attributes = _attributes_of_template(after)
        self._export(
            Span(trace.trace_id, _new_span_id(), trace.root_id, "running", followed.applied, ended, attributes)
        )


def is_running(binding: Binding) -> bool:
    """Whether all copies of the workload are applied and healthy."""
    healthy = {
        item.cluster_name for item in binding.status.aggregated_status if item.applied and item.health == HEALTHY
    }
    targets = {target.name for target in binding.spec.clusters}
    return bool(targets) and targets <= healthy and is_condition_true(binding.status.conditions, "FullyApplied")


def _trace_of_template(template: Raw) -> TraceId:
    metadata = template["metadata"]
    return trace_of(metadata.get("uid", ""), metadata.get("generation", 0))


def _differ_in_metadata_only(one: Raw, other: Raw) -> bool:
    """Whether both are the same template with the same wishes."""
    ignored = ("metadata", "status")
    return one["metadata"].get("uid") == other["metadata"].get("uid") and all(
        one.get(name) == other.get(name) for name in one.keys() | other.keys() if name not in ignored
    )


def _trace_of_work(work: Work) -> TraceId | None:
    for manifest in work.spec.workload.manifests:
        annotations = annotations_of(manifest) if "metadata" in manifest else {}
        if uid := annotations.get(TEMPLATE_UID):
            return trace_of(uid, annotations.get(TEMPLATE_GENERATION, 0))
    return None


def _new_span_id() -> str:
    return f"{random.getrandbits(64) or 1:016x}"


def _reconcile_span(done: FinishedReconcile, trace_id: str, parent_id: str) -> Span:
    result = "failed" if done.failure else "effects" if done.had_effects else "unchanged"
    attributes = {**_object_attributes(done), "trimtab.controller": done.controller, "trimtab.result": result}
    return Span(
        trace_id, _new_span_id(), parent_id, done.controller, done.started, done.ended, attributes, done.failure
    )


def _object_attributes(done: FinishedReconcile) -> dict[str, str]:
    attributes = {"trimtab.object.resource": done.key.kind, "trimtab.object.name": done.key.name}
    if done.key.namespace:
        attributes["k8s.namespace.name"] = done.key.namespace
    if cluster := cluster_of(done.key.namespace):
        attributes["k8s.cluster.name"] = cluster
    return attributes


def _attributes_of_template(binding: Binding) -> dict[str, str]:
    ref = binding.spec.resource
    names = {"trimtab.object.kind": ref.kind, "trimtab.object.name": ref.name, "k8s.namespace.name": ref.namespace}
    return {name: value for name, value in names.items() if value}
