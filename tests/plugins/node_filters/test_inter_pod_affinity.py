from pod_builders import HOSTNAME, ZONE, node, pod, pod_affinity

from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.schedule import schedule

PAIR = [node("a", zone="east"), node("b", zone="west")]


def test_required_affinity_selects_the_domain_of_the_pods() -> None:
    fleet = NodeSnapshot.of(PAIR, [pod("cache", on="b", app="cache")])
    assert schedule(pod("p", **pod_affinity(ZONE, "cache")), fleet).node == "b"


def test_the_first_pod_of_an_affinity_group_may_start_anywhere() -> None:
    assert schedule(pod("p", app="web", **pod_affinity(ZONE, "web")), NodeSnapshot.of(PAIR)).node == "a"
    assert schedule(pod("p", app="other", **pod_affinity(ZONE, "web")), NodeSnapshot.of(PAIR)).node is None


def test_required_anti_affinity_excludes_the_domain() -> None:
    fleet = NodeSnapshot.of(PAIR, [pod("one", on="a")])
    assert schedule(pod("p", **pod_affinity(HOSTNAME, anti=True)), fleet).node == "b"


def test_anti_affinity_of_running_pods_is_respected() -> None:
    fleet = NodeSnapshot.of(PAIR, [pod("shy", on="a", app="shy", **pod_affinity(HOSTNAME, "web", anti=True))])
    assert schedule(pod("p"), fleet).node == "b"


def test_namespaces_can_be_selected_by_their_labels() -> None:
    preference = pod_affinity(ZONE, "cache")
    (term,) = preference["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["namespaceSelector"] = {"matchLabels": {"team": "data"}}
    running = [pod("cache", on="b", app="cache", namespace="data"), pod("cache", on="a", app="cache")]
    fleet = NodeSnapshot.of(PAIR, running, namespaces={"data": {"team": "data"}, "default": {}})
    assert schedule(pod("p", **preference), fleet).node == "b"
