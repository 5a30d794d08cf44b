"""The shared model: its sums are those of the objects, after any sequence of changes."""

from collections import Counter
from datetime import timedelta

from builders import binding, cluster, status_item
from hypothesis import given
from hypothesis import strategies as st

from console.fake_console import NOW, fill, new_console
from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus
from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Meta
from trimtab.console.cluster_facts import DARK
from trimtab.console.facts import move_facts
from trimtab.console.model import FleetModel, Sums
from trimtab.console.page import PageContext
from trimtab.console.pages.moves import move_rows
from trimtab.console.workload_facts import MOVING, PLACED, SHORT

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


def test_last_known_replicas_of_a_dark_cluster_are_those_placed_there_and_those_that_left_since() -> None:
    console = new_console()
    fill(console)
    model = console.model
    assert model.replicas_that_left("web-c0", NOW, None) == 2
    assert model.replicas_that_left("web-c0", NOW + timedelta(seconds=1), None) == 0
    assert model.replicas_that_left("web-c1", NOW, None) == 0
    assert model.replicas_that_left("web-c0", None, None) == 0
    assert model.replicas_that_left("web-c0", NOW, frozenset({"hidden"})) == 0


def test_outcomes_are_counted_change_by_change() -> None:
    console = new_console()
    fill(console)
    model = console.model
    assert model.sums(None).outcomes == {"": 1}
    move = Move(
        metadata=Meta(name="m1", namespace="shop"),
        spec=MoveSpec(object=MovedObject(kind="Deployment", namespace="shop", name="web"), cause="Rebalance"),
        status=MoveStatus(outcome="Done", started=NOW, finished=NOW),
    )
    model.put_move("shop/m1", move)
    assert +model.sums(None).outcomes == {"Done": 1}
    assert model.sums(None).moves == 0
    model.put_move("shop/m1", None)
    assert not +model.sums(frozenset({"shop"})).outcomes


def test_move_in_progress_says_how_many_of_its_replicas_are_ready() -> None:
    console = new_console()
    fill(console)
    context = PageContext(console.model, NOW)
    (row,) = move_rows(list(console.model.latest_moves(None)), context)
    assert row["progress"] == (1, 2), "one of the two new replicas in web-c1 is still starting"


def test_move_is_asked_for_by_a_user_or_by_nobody() -> None:
    spec = MoveSpec(object=MovedObject(kind="Deployment", namespace="shop", name="web"), cause="Rebalance")
    assert move_facts(Move(spec=spec.but(by="trimtab-mover"))).by == ""
    assert move_facts(Move(spec=spec.but(by="anna"))).by == "anna"
