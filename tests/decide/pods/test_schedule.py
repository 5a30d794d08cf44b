from pod_builders import node, pod
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.groups import Groups
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


def test_a_node_to_be_avoided_is_taken_only_when_no_other_will_do() -> None:
    fleet = NodeFleet.of([node("a"), node("b", cpu="1")], [pod("r", on="b", cpu="500m")])
    assert schedule(pod("p"), fleet, avoided={"a"}).node == "b"
    assert schedule(pod("p", cpu="2"), fleet, avoided={"a"}).node == "a"


def test_pods_of_one_service_spread_without_being_told() -> None:
    running = [pod("one", on="a"), pod("filler", on="b", app="other", cpu="200m")]
    fleet = NodeFleet.of([node("a", zone="east"), node("b", zone="west"), node("c")], running)
    grouped = fleet.with_groups(Groups(services={"default": [{"app": "web"}]}))
    marks = {opinion.node: opinion.marks["PodTopologySpread"] for opinion in explain(pod("p"), grouped)}
    assert marks["a"] < marks["b"] < marks["c"]  # a node outside every zone is ranked too, and is the emptiest
    assert all("PodTopologySpread" not in opinion.marks for opinion in explain(pod("p"), fleet))
