"""The counts that are kept for budgets are those of a count of all workloads, and only what changed is counted again."""

from typing import Any, cast

import pytest
from builders import binding, cluster, deployment, status_item
from hypothesis import given
from hypothesis import strategies as st
from views import FakeView

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec
from trimtab.api.kinds.work import HeldReplicas, ResourceBinding
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta, Object, Raw
from trimtab.client.client import Resource, resource_of
from trimtab.controllers.movement import budget_coverage
from trimtab.runtime.cache import Cache, Table
from trimtab.runtime.workload_counts import WorkloadCountsCache

TYPES: tuple[type[Object], ...] = (ResourceBinding, Cluster, DisruptionBudget)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CLUSTERS = ("m1", "m2", "m3")
WEB = {"tier": "web"}


class Tables:
    """A cache whose objects the test puts."""

    def __init__(self) -> None:
        self.by_type = {type_: Table(resource_of(kind_of(type_))) for type_ in TYPES}
        self.templates = Table(DEPLOYMENTS)
        self.removed_tables = 0
        self._revision = 0
        self.counts = WorkloadCountsCache(cast("Cache", self))

    def add_table_listener(self, listener: Any) -> None:
        for table in (*self.by_type.values(), self.templates):
            listener(table)

    def table_of(self, type_: type[Object]) -> Table:
        return self.by_type[type_]

    def put(self, thing: Object | Raw) -> None:
        self._revision += 1
        raw = thing if isinstance(thing, dict) else to_wire(thing)
        table = self.templates if isinstance(thing, dict) else self.by_type[type(thing)]
        table.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self._revision)}})

    def drop(self, table: Table, namespace: str, name: str) -> None:
        self._revision += 1
        table.drop((namespace, name), str(self._revision))

    def view(self) -> FakeView:
        things = [entry.typed for table in self.by_type.values() for entry in table.entries.values()]
        return FakeView(things, raws=[entry.raw for entry in self.templates.entries.values()])

    def sums(self, budget: DisruptionBudget) -> tuple[int, int]:
        counts = self.counts.current(budget, self.view())
        return counts.desired, counts.ready


def new_budget(**labels: str) -> DisruptionBudget:
    spec = DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(match_labels=labels))
    return DisruptionBudget(metadata=Meta(name="careful", namespace="demo"), spec=spec)


def placed(name: str, **ready: int) -> ResourceBinding:
    """A binding whose clusters report so many ready replicas of two each."""
    items = tuple(status_item(one, status={"readyReplicas": n}) for one, n in ready.items())
    return binding(name, clusters=dict.fromkeys(ready, 2), status_aggregated_status=items)


def new_tables(workloads: int = 3) -> Tables:
    tables = Tables()
    for name in CLUSTERS:
        tables.put(cluster(name))
    for number in range(workloads):
        tables.put(deployment(f"web-{number}", labels=WEB))
        tables.put(placed(f"web-{number}", m1=2, m2=1))
    return tables


def test_a_cluster_that_is_lost_and_returns_changes_the_ready_replicas() -> None:
    tables, budget = new_tables(), new_budget()
    assert tables.sums(budget) == (12, 9)
    tables.put(cluster("m1", ready="False"))
    assert tables.sums(budget) == (12, 3)
    tables.put(cluster("m1"))
    assert tables.sums(budget) == (12, 9)
    tables.drop(tables.table_of(Cluster), "", "m2")
    assert tables.sums(budget) == (12, 6)


def test_labels_of_the_template_decide_whether_a_workload_counts() -> None:
    tables, budget = new_tables(), new_budget(**WEB)
    assert tables.sums(budget) == (12, 9)
    tables.put(deployment("web-0", labels={"tier": "batch"}))
    assert tables.sums(budget) == (8, 6)
    tables.drop(tables.templates, "demo", "web-1")
    assert tables.sums(budget) == (4, 3)
    tables.put(deployment("web-0", labels=WEB))
    tables.put(deployment("web-1", labels=WEB))
    assert tables.sums(budget) == (12, 9)


def test_a_budget_that_selects_other_workloads_counts_them_all_again() -> None:
    tables = new_tables()
    tables.put(deployment("web-0", labels={"tier": "batch"}))
    assert tables.sums(new_budget(**WEB)) == (8, 6)
    assert tables.sums(new_budget(tier="batch")) == (4, 3)


def test_templates_of_a_kind_that_is_no_longer_served_do_not_count() -> None:
    tables, budget = new_tables(), new_budget()
    assert tables.sums(budget) == (12, 9)
    tables.templates = Table(DEPLOYMENTS)
    tables.removed_tables += 1
    assert tables.sums(budget) == (0, 0)


def test_counts_of_a_deleted_budget_are_forgotten() -> None:
    tables, budget = new_tables(), new_budget()
    tables.put(budget)
    first = tables.counts.current(budget, tables.view())
    assert tables.counts.current(budget, tables.view()) is first
    tables.drop(tables.table_of(DisruptionBudget), "demo", "careful")
    assert tables.counts.current(budget, tables.view()) is not first


def test_one_change_counts_one_workload_however_many_the_budget_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count_of = budget_coverage.count_of

    def counting(subject: Any, *others: Any) -> Any:
        counted.append(subject.name)
        return count_of(subject, *others)

    monkeypatch.setattr(budget_coverage, "count_of", counting)
    for workloads in (5, 50):
        tables, budget = new_tables(workloads), new_budget()
        tables.sums(budget)
        counted.clear()
        tables.put(placed("web-3", m1=2, m3=2))
        assert tables.sums(budget)[0] == 4 * workloads
        assert counted == ["web-3-deployment"]
        tables.sums(budget)
        tables.put(cluster("m3", ready="False"))
        tables.put(deployment("web-1", labels={"tier": "batch"}))
        tables.sums(budget)
        assert sorted(counted[1:]) == ["web-1-deployment", "web-3-deployment"]


def test_holds_are_found_by_the_name_of_the_workload() -> None:
    tables, budget = new_tables(), new_budget()
    held = placed("web-0", m1=2)
    tables.put(held.but(status=held.status.but(holds=(HeldReplicas(cluster="m1", replicas=2),))))
    counts = tables.counts.current(budget, tables.view())
    assert counts.covered_bindings("Deployment/web-0") == ["web-0-deployment"]
    assert counts.covered_bindings("Deployment/none") == []


CHANGES = st.one_of(
    st.tuples(
        st.just("binding"), st.sampled_from("abc"), st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 3))
    ),
    st.tuples(st.just("no binding"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("template"), st.sampled_from("abc"), st.sampled_from(("web", "batch"))),
    st.tuples(st.just("no template"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("cluster"), st.sampled_from(CLUSTERS), st.sampled_from(("True", "False"))),
    st.tuples(st.just("no cluster"), st.sampled_from(CLUSTERS), st.none()),
)


def apply(tables: Tables, change: str, name: str, value: Any) -> None:
    if change == "binding":
        tables.put(placed(name, **value))
    elif change == "no binding":
        tables.drop(tables.table_of(ResourceBinding), "demo", f"{name}-deployment")
    elif change == "template":
        tables.put(deployment(name, labels={"tier": value}))
    elif change == "no template":
        tables.drop(tables.templates, "demo", name)
    elif change == "cluster":
        tables.put(cluster(name, ready=value))
    else:
        tables.drop(tables.table_of(Cluster), "", name)


@given(st.lists(st.tuples(CHANGES, st.booleans()), max_size=20))
def test_kept_counts_equal_a_count_of_everything(changes: list[tuple[tuple[str, str, Any], bool]]) -> None:
    tables, budget = Tables(), new_budget(**WEB)
    for change, is_read in changes:
        apply(tables, *change)
        if is_read:
            tables.sums(budget)
    whole = budget_coverage.count_workloads(budget, tables.view())
    kept = tables.counts.current(budget, tables.view())
    assert (kept.desired, kept.ready) == (whole.desired, whole.ready)
    for name in "abc":
        assert kept.covered_bindings(f"Deployment/{name}") == whole.covered_bindings(f"Deployment/{name}")
