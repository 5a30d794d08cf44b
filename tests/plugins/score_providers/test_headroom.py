from plugins.score_providers.provider_inputs import provider_cluster
from trimtab.plugins.score_providers.headroom import headroom


def test_headroom_is_the_free_share_of_the_scarcer_resource() -> None:
    room = {"cpu": 10.0, "memory": 100.0}
    (scores,) = headroom([provider_cluster("a", allocatable=room, allocated={"cpu": 5.0, "memory": 25.0})], {})
    assert scores.scores == {"cpu": 0, "memory": 50, "headroom": 0}


def test_a_cluster_without_usage_gets_no_headroom_score() -> None:
    assert list(headroom([provider_cluster("a", allocatable={"cpu": 10.0})], {})) == []
