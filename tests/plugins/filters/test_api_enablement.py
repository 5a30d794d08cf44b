from plugins.clusters import check_filter, cluster, placement_request
from trimtab.decide.framework import filters
from trimtab.plugins import load

load()
SERVES = {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}


def test_a_cluster_that_serves_the_kind_passes() -> None:
    assert check_filter("APIEnablement", placement_request(), cluster(status=SERVES)) is None


def test_a_cluster_without_api_enablements_is_rejected() -> None:
    reason = check_filter("APIEnablement", placement_request(), cluster())
    assert reason is not None
    assert reason.message == "cluster(s) did not have the API resource"


def test_the_version_counts_too() -> None:
    other = placement_request(resource={"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"})
    assert check_filter("APIEnablement", other, cluster(status=SERVES)) is not None


def test_clusters_in_use_are_not_checked() -> None:
    assert filters["APIEnablement"].skips_placed
