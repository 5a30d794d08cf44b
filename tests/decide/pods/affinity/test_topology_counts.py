import numpy as np
from pod_builders import HOSTNAME, ZONE, node, pod, pod_affinity

from trimtab.decide.pods.affinity.affinity_terms import HashableSelector
from trimtab.decide.pods.affinity.topology_counts import (
    domain_codes,
    matching_pod_counts,
    own_domain_values,
    selected_pod_counts,
    sum_per_domain,
    term_counts,
)
from trimtab.decide.pods.node_snapshot import NodeSnapshot

LEAVING = {"deletionTimestamp": "2026-08-01T00:00:00Z"}
FLEET = NodeSnapshot.of(
    [node("a", zone="x"), node("b", zone="y"), node("c", zone="x"), node("d")],
    [
        pod("p", on="a", **pod_affinity(HOSTNAME, anti=True)),
        pod("q", on="c"),
        pod("gone", on="c", metadata=LEAVING),
        pod("r", on="b", app="other"),
    ],
)
WEB = HashableSelector((("app", "web"),))


def test_pods_are_summed_per_domain_and_nodes_without_the_label_are_left_out() -> None:
    codes = domain_codes(FLEET.nodes, FLEET.topology_codes, ZONE)
    assert codes.tolist() == [0, 1, 0, -1]
    sums = sum_per_domain(
        selected_pod_counts(FLEET.nodes, "default", WEB), codes, FLEET.topology_codes.domain_count(ZONE)
    )
    assert sums.tolist() == [2, 0]
    assert own_domain_values(sums, codes).tolist() == [2, 0, 2, 0]
    some = np.array([True, True, False, True])
    assert sum_per_domain(selected_pod_counts(FLEET.nodes, "default", WEB), codes, 2, some).tolist() == [1, 0]


def test_terminating_pods_count_for_affinity_but_not_for_spreading() -> None:
    (term,) = FLEET.affinity_term_counts
    assert selected_pod_counts(FLEET.nodes, "default", WEB).tolist() == [1, 0, 1, 0]
    assert matching_pod_counts(FLEET.nodes, (term.term,)).tolist() == [1, 0, 2, 0]
    assert term_counts(FLEET.nodes, term).tolist() == [1, 0, 0, 0]
    assert not selected_pod_counts(FLEET.nodes, "default", HashableSelector()).any()
