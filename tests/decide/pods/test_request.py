from pod_builders import HOSTNAME, ZONE, near, node, pod, spread

from trimtab.decide.pods.affinity.selector_groups import Groups
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import ask_for


def test_request_has_the_terms_of_running_pods_that_select_the_pod() -> None:
    running = [pod("r", on="a", app="other", **near(HOSTNAME, "web", repels=True))]
    fleet = NodeFleet.of([node("a"), node("b")], running)
    selected = ask_for(pod("p"), fleet)
    assert [one.term.topology_key for one in selected.watched] == [HOSTNAME]
    assert selected.nodes == 2
    assert ask_for(pod("q", app="else"), fleet).watched == ()


def test_default_constraints_apply_only_to_pods_without_their_own() -> None:
    groups = Groups(services={"default": [{"app": "web"}]})
    fleet = NodeFleet.of([node("a")]).with_groups(groups)
    assert [(one.topology_key, one.hard) for one in ask_for(pod("p"), fleet).spreads] == [
        (HOSTNAME, False),
        (ZONE, False),
    ]
    assert [(one.topology_key, one.hard) for one in ask_for(pod("p", **spread(ZONE)), fleet).spreads] == [(ZONE, True)]
