import numpy as np
from pod_builders import HOSTNAME, ZONE, node, pod, topology_spread

from trimtab.decide.pods.affinity.spread_eligibility import counted_mask, labelled_mask
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import pod_request_for

FLEET = NodeSnapshot.of([node("a", zone="x"), node("b"), node("c", zone="y", taints=["t=1:NoSchedule"])])
ALL = np.ones(3, dtype=bool)


def test_nodes_need_every_label_of_the_constraints() -> None:
    request = pod_request_for(pod("p", **topology_spread(ZONE)), FLEET)
    assert labelled_mask(request, FLEET.nodes, request.topology_spreads).tolist() == [True, False, True]


def test_constraint_counts_nodes_by_its_affinity_and_taints_policies() -> None:
    chosen = {"nodeSelector": {HOSTNAME: "a"}}
    for policy, expected in (("Honor", [True, False, False]), ("Ignore", [True, True, True])):
        request = pod_request_for(pod("p", **chosen, **topology_spread(ZONE, nodeAffinityPolicy=policy)), FLEET)
        assert counted_mask(request, FLEET.nodes, request.topology_spreads[0], ALL).tolist() == expected
    request = pod_request_for(pod("p", **topology_spread(ZONE, nodeTaintsPolicy="Honor")), FLEET)
    assert counted_mask(request, FLEET.nodes, request.topology_spreads[0], ALL).tolist() == [True, True, False]
