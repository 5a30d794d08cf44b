from api.kinds.kind_helpers import decode
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.metrics import NodeMetrics, PodMetrics


def test_metrics_can_only_be_read() -> None:
    assert tuple(kind_of(NodeMetrics).verbs) == ("get", "list")
    assert tuple(kind_of(PodMetrics).verbs) == ("get", "list")


def test_metrics_are_served_under_the_names_of_nodes_and_pods() -> None:
    assert (kind_of(NodeMetrics).plural, kind_of(NodeMetrics).namespaced) == ("nodes", False)
    assert (kind_of(PodMetrics).plural, kind_of(PodMetrics).namespaced) == ("pods", True)


def test_usage_is_kept_per_container() -> None:
    containers = [{"name": "c", "usage": {"cpu": "250m", "memory": "64Mi"}}]
    metrics = decode(PodMetrics, {"metadata": {"name": "p"}, "window": "30s", "containers": containers})
    assert [(one.name, one.usage) for one in metrics.containers] == [("c", {"cpu": "250m", "memory": "64Mi"})]
