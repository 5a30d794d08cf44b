"""Every process finds the trace of a workload by itself; traces are sampled as a whole and bounded."""

from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.apps import Deployment
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.value import Key
from trimtab.client.client import resource_of
from trimtab.client.otlp import Span
from trimtab.runtime.cache import CacheEntry, Table
from trimtab.runtime.observers import tracing
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile
from trimtab.runtime.observers.tracing import Tracer, is_sampled, trace_of

DEPLOYMENTS = resource_of(kind_of(Deployment))


class Tables:
    """The cache of a process that follows some kinds."""

    def __init__(self, *types: Any) -> None:
        self.tables = {kind_of(type_).id: Table(resource_of(kind_of(type_))) for type_ in types}

    def find_table(self, id_: str) -> Table | None:
        return self.tables.get(id_)

    def add_table_listener(self, listener: Any) -> None:
        for table in self.tables.values():
            listener(table)


class Process:
    """A process with a tracer, and the spans that it exported."""

    def __init__(self, *types: Any, ratio: float = 1.0) -> None:
        self.cache = Tables(*types)
        self.spans: list[Span] = []
        state: Any = SimpleNamespace(cache=self.cache, resources={("apps/v1", "Deployment"): DEPLOYMENTS})
        self.tracer = Tracer(state, self.spans.append, ratio)
        self.tracer.watch()

    def put(self, type_: Any, obj: dict[str, Any]) -> None:
        self.cache.tables[kind_of(type_).id].put(obj)

    def reconcile(self, controller: str, type_: Any, obj: dict[str, Any]) -> Span:
        kind, meta = kind_of(type_), obj["metadata"]
        key = Key(kind.id, meta.get("namespace", ""), meta["name"])
        self.tracer.observe(FinishedReconcile(controller, key, CacheEntry(obj, kind), 10, 20, False, ""))
        return self.spans[-1]


def template(generation: int, revision: int = 1, image: str = "a") -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "u1", "generation": generation}
    metadata["resourceVersion"] = str(revision)
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"image": image}}


def binding(revision: int = 1, health: str = "") -> dict[str, Any]:
    kind = kind_of(ResourceBinding)
    metadata = {"name": "web-deployment", "namespace": "shop", "resourceVersion": str(revision)}
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u1"}
    status = {
        "conditions": [{"type": "FullyApplied", "status": "True", "reason": "x"}],
        "aggregatedStatus": [{"clusterName": "m1", "applied": True, "health": health}],
    }
    spec = {"resource": resource, "clusters": [{"name": "m1"}]}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": metadata,
        "spec": spec,
        "status": status if health else {},
    }


def work(**annotations: str) -> dict[str, Any]:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": annotations}}
    metadata = {"name": "web-1", "namespace": "karmada-es-m1"}
    return {
        "apiVersion": kind_of(Work).api_version,
        "kind": "Work",
        "metadata": metadata,
        "spec": {"workload": {"manifests": [manifest]}},
    }


ANNOTATED = {"resourcetemplate.karmada.io/uid": "u1", "resourcetemplate.karmada.io/generation": "3"}


def test_two_processes_put_the_hops_of_a_workload_into_one_trace() -> None:
    deciding, pushing = Process(Deployment, ResourceBinding), Process(Work)
    deciding.put(Deployment, template(3))
    spans = [
        deciding.reconcile("detect", Deployment, template(3)),
        deciding.reconcile("schedule", ResourceBinding, binding()),
        pushing.reconcile("execute", Work, work(**ANNOTATED)),
    ]
    assert {span.trace_id for span in spans} == {trace_of("u1", 3).trace_id}
    assert {span.parent_id for span in spans} == {trace_of("u1", 3).root_id}
    assert spans[2].attributes["k8s.cluster.name"] == "m1"


def test_next_generation_is_another_trace() -> None:
    process = Process(Deployment)
    first, second = (process.reconcile("detect", Deployment, template(number)) for number in (1, 2))
    assert first.trace_id != second.trace_id


def test_claim_that_gives_a_new_generation_stays_in_the_trace() -> None:
    process = Process(Deployment)
    process.put(Deployment, template(1))
    seen = next(iter(process.tracer._seen.values()))
    process.put(Deployment, template(2, revision=2))
    process.reconcile("detect", Deployment, template(1))
    root, detect = process.spans
    assert (root.name, root.started) == ("apply", seen)
    assert root.trace_id == detect.trace_id == trace_of("u1", 2).trace_id


def test_change_of_the_spec_begins_a_trace_of_its_own() -> None:
    process = Process(Deployment)
    process.put(Deployment, template(1))
    process.put(Deployment, template(2, revision=2, image="b"))
    assert process.reconcile("detect", Deployment, template(1)).trace_id == trace_of("u1", 1).trace_id


def test_running_is_reported_once_from_the_change_of_the_template() -> None:
    process = Process(Deployment, ResourceBinding)
    process.put(Deployment, template(1))
    process.reconcile("detect", Deployment, template(1))
    for revision, health in enumerate(("Unhealthy", "Healthy", "Unhealthy", "Healthy"), 1):
        process.put(ResourceBinding, binding(revision, health))
    root = process.spans[0]
    [running] = [span for span in process.spans if span.name == "running"]
    assert (running.started, running.parent_id) == (root.started, root.span_id)


def test_template_that_was_there_before_has_no_root() -> None:
    process = Process(Deployment, ResourceBinding)
    process.reconcile("detect", Deployment, template(1))
    process.put(ResourceBinding, binding(1, "Healthy"))
    assert [span.name for span in process.spans] == ["detect"]


@pytest.mark.parametrize("obj", [work(), {**work(), "spec": {}}])
def test_work_without_a_template_is_a_trace_of_one_span(obj: dict[str, Any]) -> None:
    process = Process(Work)
    assert process.reconcile("execute", Work, obj).parent_id == ""


def test_reconcile_of_a_cluster_is_a_trace_of_one_span() -> None:
    process = Process(Cluster)
    cluster = {"apiVersion": kind_of(Cluster).api_version, "kind": "Cluster", "metadata": {"name": "m1", "uid": "c"}}
    first, second = (process.reconcile("health", Cluster, cluster) for _ in range(2))
    assert first.trace_id != second.trace_id
    assert (first.parent_id, first.attributes["trimtab.object.name"]) == ("", "m1")


def test_failure_has_its_reason_and_no_message() -> None:
    process = Process(Deployment)
    key = Key("deployments.apps", "shop", "web")
    entry = CacheEntry(template(1), kind_of(Deployment))
    process.tracer.observe(FinishedReconcile("detect", key, entry, 10, 20, True, "Conflict"))
    assert process.spans[0].error == "Conflict"
    assert process.spans[0].attributes["trimtab.result"] == "failed"


def test_traces_are_sampled_as_a_whole() -> None:
    ids = [trace_of(f"u{number}", 1).trace_id for number in range(1000)]
    assert 50 < sum(is_sampled(one, 0.1) for one in ids) < 200
    assert all(is_sampled(one, 1.0) for one in ids)
    assert not any(is_sampled(one, 0.0) for one in ids)
    assert all(is_sampled(one, 0.5) for one in ids if is_sampled(one, 0.1))


def test_long_trace_ends_at_a_limit_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MAX_SPANS_PER_TRACE", 3)
    monkeypatch.setattr(tracing, "MAX_TRACES", 2)
    process = Process(Deployment)
    for _ in range(5):
        process.reconcile("detect", Deployment, template(1))
    assert (len(process.spans), process.tracer.spans_beyond_limit) == (3, 2)
    for generation in range(2, 9):
        process.put(Deployment, template(generation, revision=generation, image=str(generation)))
    assert len(process.tracer._seen) == 2
    for generation in range(2, 9):
        process.reconcile("detect", Deployment, template(generation, image="x"))
    assert len(process.tracer._traces) == 2
