import numpy as np
from pod_builders import HOSTNAME, ZONE, node, pod, spread

from trimtab.decide.pods.affinity.spread_eligibility import counting, labelled
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import ask_for

FLEET = NodeFleet.of([node("a", zone="x"), node("b"), node("c", zone="y", taints=["t=1:NoSchedule"])])
ALL = np.ones(3, dtype=bool)


def test_nodes_need_every_label_of_the_constraints() -> None:
    request = ask_for(pod("p", **spread(ZONE)), FLEET)
    assert labelled(request, FLEET.hosts, request.spreads).tolist() == [True, False, True]


def test_constraint_counts_nodes_by_its_affinity_and_taints_policies() -> None:
    chosen = {"nodeSelector": {HOSTNAME: "a"}}
    for policy, expected in (("Honor", [True, False, False]), ("Ignore", [True, True, True])):
        request = ask_for(pod("p", **chosen, **spread(ZONE, nodeAffinityPolicy=policy)), FLEET)
        assert counting(request, FLEET.hosts, request.spreads[0], ALL).tolist() == expected
    request = ask_for(pod("p", **spread(ZONE, nodeTaintsPolicy="Honor")), FLEET)
    assert counting(request, FLEET.hosts, request.spreads[0], ALL).tolist() == [True, True, False]
