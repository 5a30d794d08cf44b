"""The APIService of every group version that a server serves itself."""

from trimtab.server.apiserver import ApiServer
from trimtab.server.background.api_service_objects import local_api_services
from trimtab.store.store import Store


def test_every_group_version_has_one_with_the_priorities_of_kubernetes() -> None:
    found = {one["metadata"]["name"]: one for one in local_api_services(ApiServer(Store()).catalogue)}
    core, apps, ours = found["v1."], found["v1.apps"], found["v1alpha1.policy.karmada.io"]
    assert core["spec"]["groupPriorityMinimum"] == 18_000
    assert apps["spec"] == {"group": "apps", "version": "v1", "groupPriorityMinimum": 17_000, "versionPriority": 15}
    assert ours["spec"]["groupPriorityMinimum"] == 1_000
    assert ours["spec"]["versionPriority"] < apps["spec"]["versionPriority"], "a beta version comes after a stable one"
    label = "kube-aggregator.kubernetes.io/automanaged"
    assert (core["metadata"]["labels"], ours["metadata"]["labels"]) == ({label: "onstart"}, {label: "true"})
