"""The nodes of a lean member: replicas take resources of the first nodes with enough of them."""

from datetime import UTC, datetime

from trimtab.api.kinds.work import NodeClaim
from trimtab.simulate.fleet import NodePlan, NodePool
from trimtab.simulate.lean.nodes import LeanNodes, PodSize

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HALF = PodSize({"cpu": 2000})


def nodes() -> LeanNodes:
    plans = [
        NodePlan(name=name, region="eu", zone="eu-1", pool=NodePool(cpu="4", labels=labels))
        for name, labels in (("a", {}), ("b", {"disk": "fast"}))
    ]
    return LeanNodes(plans, NOON)


def test_replicas_go_to_the_first_nodes_and_no_more_than_fit() -> None:
    placed = nodes()
    assert placed.place(HALF, 3) == (2, 1)
    assert placed.place(HALF, 3) == (0, 1)
    assert placed.used_amounts() == {"a": {"cpu": 4000}, "b": {"cpu": 4000}}


def test_released_replicas_free_their_resources() -> None:
    placed = nodes()
    counts = placed.place(HALF, 4)
    placed.release(HALF, counts)
    assert placed.used_amounts() == {"a": {}, "b": {}}


def test_replicas_run_only_on_nodes_that_their_selector_matches() -> None:
    fast = PodSize({"cpu": 1000}, NodeClaim(node_selector={"disk": "fast"}))
    assert nodes().place(fast, 2) == (0, 2)


def test_what_others_use_is_not_available() -> None:
    placed = nodes()
    placed.occupy({"cpu": 3000})
    assert placed.place(HALF, 1) == (0, 0)
    placed.occupy({"cpu": -3000})
    assert placed.place(HALF, 1) == (1, 0)
