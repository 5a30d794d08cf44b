"""The shared model: its sums are those of the objects, after any sequence of changes."""

from collections import Counter

from builders import binding, cluster, status_item
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import ResourceBinding
from trimtab.console.facts import DARK, MOVING, PLACED, SHORT
from trimtab.console.model import FleetModel, Sums

DIVIDED = Placement(
    replica_scheduling=ReplicaSchedulingStrategy(
        replica_scheduling_type="Divided", replica_division_preference="Aggregated"
    )
)
CLUSTERS = ("a", "b", "c")


def workload(name: str, namespace: str, clusters: dict[str, int], ready: dict[str, int]) -> ResourceBinding:
    one = binding(name, clusters=clusters)
    reports = tuple(status_item(place, status={"readyReplicas": n}, applied=True) for place, n in ready.items())
    return one.but(
        metadata=one.metadata.but(name=f"{name}-deployment", namespace=namespace),
        spec=one.spec.but(
            replicas=sum(clusters.values()),
            placement=DIVIDED,
            resource=one.spec.resource.but(name=name, namespace=namespace),
        ),
        status=one.status.but(aggregated_status=reports),
    )


SHARES = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(1, 5), max_size=3)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["w1", "w2"]), st.sampled_from(["n1", "n2"]), SHARES, SHARES),
        st.tuples(st.just("drop"), st.sampled_from(["w1", "w2"]), st.sampled_from(["n1", "n2"])),
        st.tuples(st.just("cluster"), st.sampled_from(CLUSTERS), st.sampled_from(["True", "False"])),
    ),
    max_size=12,
)


@given(changes=CHANGES)
def test_sums_equal_those_of_a_model_that_is_built_anew(changes: list[tuple]) -> None:
    model = FleetModel()
    stored: dict[tuple[str, str], ResourceBinding] = {}
    for change in changes:
        if change[0] == "cluster":
            model.put_cluster(change[1], cluster(change[1], ready=change[2]))
        else:
            key = (change[2], change[1])
            new = workload(change[1], change[2], change[3], change[4]) if change[0] == "put" else None
            model.put_binding(new, stored.pop(key, None))
            if new is not None:
                stored[key] = new
    for namespaces in (None, {"n1"}):
        expected = Sums()
        for facts in model.workloads.values():
            if namespaces is None or facts.namespace in namespaces:
                expected.add_workload(facts, 1)
        found = model.sums(namespaces)
        assert (found.ready, found.desired) == (expected.ready, expected.desired)
        assert +found.states == +expected.states
        for name in CLUSTERS:
            assert +model.cluster_sums(name, namespaces) == +expected.in_cluster.get(name, Counter())
    assert model.workload_keys == sorted(model.workloads)
    assert len(model.workloads) == len(stored)


def test_replicas_of_a_dark_cluster_are_lost() -> None:
    model = FleetModel()
    model.put_cluster("a", cluster("a"))
    model.put_binding(workload("w", "n", {"a": 2, "b": 1}, {"a": 2, "b": 1}), None)
    (facts,) = model.workloads.values()
    assert (facts.state, facts.ready, facts.cells["a"].ready) == (PLACED, 3, 2)
    model.put_cluster("a", cluster("a", ready="False"))
    (facts,) = model.workloads.values()
    assert model.clusters["a"].state == DARK
    assert (facts.state, facts.ready, facts.cells["a"].lost) == (SHORT, 1, 2)


def test_change_without_a_visible_effect_wakes_nobody() -> None:
    model = FleetModel()
    one = workload("w", "n", {"a": 2}, {"a": 2})
    model.put_binding(one, None)
    version = model.version
    other = one.but(metadata=one.metadata.but(resource_version="99"))
    model.put_binding(other, one)
    assert model.version == version
    assert MOVING not in model.by_state
