"""Which process serves which clusters."""

from builders import cluster

from trimtab.controllers.clusters.served import is_served_by


def test_a_control_plane_serves_push_clusters_and_an_agent_its_own_cluster_only() -> None:
    push, pull = cluster("m1"), cluster("m2", sync_mode="Pull")
    assert [is_served_by(one, "") for one in (push, pull)] == [True, False]
    assert [is_served_by(one, "m2") for one in (push, pull)] == [False, True]
    assert not is_served_by(push, "m1")  # the control plane serves it
