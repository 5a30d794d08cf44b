from pod_builders import pod

from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.selector_groups import NO_SELECTOR_GROUPS, SelectorGroups


def test_selectors_of_services_and_owner_are_combined() -> None:
    groups = SelectorGroups(
        services={"default": [{"app": "web"}, {"app": "other"}]},
        workloads={"default-ReplicaSet/web": LabelSelector(match_labels={"version": "2"})},
    )
    found = groups.selector_for(pod("p"))
    assert found is not None
    assert found.labels == (("app", "web"), ("version", "2"))


def test_pod_without_service_and_known_owner_has_no_selector() -> None:
    assert NO_SELECTOR_GROUPS.selector_for(pod("p")) is None
    assert SelectorGroups(services={"default": [{"app": "other"}, {}]}).selector_for(pod("p")) is None
