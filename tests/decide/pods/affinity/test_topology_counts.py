import numpy as np
from pod_builders import HOSTNAME, ZONE, near, node, pod

from trimtab.decide.pods.affinity.affinity_terms import Choice
from trimtab.decide.pods.affinity.topology_counts import at_home, carrying, chosen, covered, domains, per_domain
from trimtab.decide.pods.node_snapshot import NodeFleet

LEAVING = {"deletionTimestamp": "2026-08-01T00:00:00Z"}
FLEET = NodeFleet.of(
    [node("a", zone="x"), node("b", zone="y"), node("c", zone="x"), node("d")],
    [
        pod("p", on="a", **near(HOSTNAME, repels=True)),
        pod("q", on="c"),
        pod("gone", on="c", metadata=LEAVING),
        pod("r", on="b", app="other"),
    ],
)
WEB = Choice((("app", "web"),))


def test_pods_are_summed_per_domain_and_nodes_without_the_label_are_left_out() -> None:
    codes = domains(FLEET.hosts, FLEET.atlas, ZONE)
    assert codes.tolist() == [0, 1, 0, -1]
    sums = per_domain(chosen(FLEET.hosts, "default", WEB), codes, FLEET.atlas.size(ZONE))
    assert sums.tolist() == [2, 0]
    assert at_home(sums, codes).tolist() == [2, 0, 2, 0]
    some = np.array([True, True, False, True])
    assert per_domain(chosen(FLEET.hosts, "default", WEB), codes, 2, some).tolist() == [1, 0]


def test_terminating_pods_count_for_affinity_but_not_for_spreading() -> None:
    (term,) = FLEET.carried
    assert chosen(FLEET.hosts, "default", WEB).tolist() == [1, 0, 1, 0]
    assert covered(FLEET.hosts, (term.term,)).tolist() == [1, 0, 2, 0]
    assert carrying(FLEET.hosts, term).tolist() == [1, 0, 0, 0]
    assert not chosen(FLEET.hosts, "default", Choice()).any()
