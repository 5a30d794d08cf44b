from pod_builders import HOSTNAME, ZONE, node, pod, pod_affinity, topology_spread

from trimtab.decide.pods.affinity.selector_groups import SelectorGroups
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for


def test_request_has_the_terms_of_running_pods_that_select_the_pod() -> None:
    running = [pod("r", on="a", app="other", **pod_affinity(HOSTNAME, "web", anti=True))]
    fleet = NodeSnapshot.of([node("a"), node("b")], running)
    selected = pod_request_for(pod("p"), fleet)
    assert [one.term.topology_key for one in selected.matching_terms] == [HOSTNAME]
    assert selected.node_count == 2
    assert pod_request_for(pod("q", app="else"), fleet).matching_terms == ()


def test_default_constraints_apply_only_to_pods_without_their_own() -> None:
    groups = SelectorGroups(services={"default": [{"app": "web"}]})
    fleet = NodeSnapshot.of([node("a")]).with_groups(groups)
    assert [(one.topology_key, one.is_hard) for one in pod_request_for(pod("p"), fleet).topology_spreads] == [
        (HOSTNAME, False),
        (ZONE, False),
    ]
    assert [
        (one.topology_key, one.is_hard)
        for one in pod_request_for(pod("p", **topology_spread(ZONE)), fleet).topology_spreads
    ] == [(ZONE, True)]
