from pod_builders import node, pod
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import resident
from trimtab.decide.pods.schedule import book, explain, schedule


def test_the_first_name_wins_among_equals() -> None:
    decision = schedule(pod("p"), NodeFleet.of([node("b"), node("a"), node("c")]))
    assert (decision.node, decision.tied, decision.feasible) == ("a", 3, 3)


def test_booking_takes_the_room() -> None:
    fleet = NodeFleet.of([node("a", pods=1), node("b", pods=1)])
    found = []
    for name in ("p", "q", "r"):
        decision = schedule(pod(name), fleet)
        fleet = book(decision, fleet)
        found.append(decision.node)
    assert found == ["a", "b", None]


def test_room_promised_to_a_pod_is_not_given_to_a_lesser_one() -> None:
    fleet = NodeFleet.of([node("a", pods=1)]).with_nominated({"a": (resident(pod("vip", priority=5)),)})
    assert schedule(pod("p", priority=4), fleet).node is None
    assert schedule(pod("q", priority=6), fleet).node == "a"
    assert schedule(pod("vip", priority=5), fleet).node == "a"


def test_every_node_that_is_turned_down_has_a_sentence() -> None:
    fleet = NodeFleet.of([node("a"), node("b", cordoned=True)])
    best, refused = explain(pod("p"), fleet)
    assert best.node == "a"
    assert refused.objection is not None
    assert refused.objection.reason.message == "the node is cordoned"
