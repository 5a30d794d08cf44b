from pod_builders import HOSTNAME, ZONE, near, node, pod

from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.schedule import schedule

PAIR = [node("a", zone="east"), node("b", zone="west")]


def test_required_affinity_selects_the_domain_of_the_pods() -> None:
    fleet = NodeFleet.of(PAIR, [pod("cache", on="b", app="cache")])
    assert schedule(pod("p", **near(ZONE, "cache")), fleet).node == "b"


def test_the_first_pod_of_an_affinity_group_may_start_anywhere() -> None:
    assert schedule(pod("p", app="web", **near(ZONE, "web")), NodeFleet.of(PAIR)).node == "a"
    assert schedule(pod("p", app="other", **near(ZONE, "web")), NodeFleet.of(PAIR)).node is None


def test_required_anti_affinity_excludes_the_domain() -> None:
    fleet = NodeFleet.of(PAIR, [pod("one", on="a")])
    assert schedule(pod("p", **near(HOSTNAME, repels=True)), fleet).node == "b"


def test_anti_affinity_of_running_pods_is_respected() -> None:
    fleet = NodeFleet.of(PAIR, [pod("shy", on="a", app="shy", **near(HOSTNAME, "web", repels=True))])
    assert schedule(pod("p"), fleet).node == "b"


def test_namespaces_can_be_selected_by_their_labels() -> None:
    wish = near(ZONE, "cache")
    (term,) = wish["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["namespaceSelector"] = {"matchLabels": {"team": "data"}}
    running = [pod("cache", on="b", app="cache", namespace="data"), pod("cache", on="a", app="cache")]
    fleet = NodeFleet.of(PAIR, running, namespaces={"data": {"team": "data"}, "default": {}})
    assert schedule(pod("p", **wish), fleet).node == "b"
