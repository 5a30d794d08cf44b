"""Defaulting, validation and requirements of Open Cluster Management's clusters and sets."""

from datetime import UTC, datetime
from typing import Any

import pytest

from api.admission.admission_helpers import errors_of, with_defaults
from trimtab.api.admission.ocm import (
    SET_LABEL,
    managed_cluster_requirements,
    set_binding_requirements,
    stamp_taints,
    stamp_unset_taints,
    without_recent_stamps,
)
from trimtab.api.admission.requirements import LiveNamespace, RequiredAccess
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Forbidden

NOW, STAMP = datetime(2030, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC), "2030-01-02T03:04:05Z"
EARLIER = "2030-01-01T00:00:00Z"
CLUSTERS = "managedclusters.cluster.open-cluster-management.io"


def cluster(*taints: Raw, set_name: str = "", **spec: Any) -> Raw:
    metadata = {"name": "a", "labels": {SET_LABEL: set_name} if set_name else {}}
    return {"metadata": metadata, "spec": {"taints": list(taints), **spec}}


def taint(effect: str = "NoSelect", **fields: str) -> Raw:
    return {"key": "gpu", "value": "x", "effect": effect, **fields}


def test_set_binding_must_have_the_name_of_its_set() -> None:
    kind = "managedclustersetbindings.cluster.open-cluster-management.io"
    assert errors_of(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "a"}}) == []
    (fault,) = errors_of(kind, {"metadata": {"name": "a"}, "spec": {"clusterSet": "b"}})
    assert "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet" in fault


def test_managed_cluster_without_a_set_gets_the_default_set_label() -> None:
    assert with_defaults(CLUSTERS, {"metadata": {"name": "a"}})["metadata"]["labels"] == {SET_LABEL: "default"}
    chosen = {"metadata": {"name": "a", "labels": {SET_LABEL: "mine"}}}
    assert with_defaults(CLUSTERS, chosen) is chosen


@pytest.mark.parametrize(
    ("name", "url", "faults"),
    [
        ("a", "https://a:6443", []),
        ("a", "127.0.0.1:8001", ['url "127.0.0.1:8001" is invalid in client configs']),
        ("a.b", "https://a:6443", ["metadata.name format is not correct: "]),
    ],
)
def test_cluster_with_client_configs_needs_a_namespace_name_and_https_urls(
    name: str, url: str, faults: list[str]
) -> None:
    raw = {"metadata": {"name": name}, "spec": {"managedClusterClientConfigs": [{"url": url}]}}
    found = errors_of(CLUSTERS, raw)
    assert len(found) == len(faults)
    assert all(expected in fault for expected, fault in zip(faults, found, strict=True))
    assert errors_of(CLUSTERS, {"metadata": {"name": "a.b"}, "spec": {}}) == []


def test_every_taint_of_a_new_cluster_is_stamped_whatever_was_sent() -> None:
    created = stamp_taints(cluster(taint(timeAdded=EARLIER), taint(key="b")), None, NOW)
    assert [one["timeAdded"] for one in created["spec"]["taints"]] == [STAMP, STAMP]
    untainted = cluster()
    assert stamp_taints(untainted, None, NOW) is untainted


def test_new_and_changed_taints_are_stamped_and_others_keep_their_time() -> None:
    old = cluster(taint(timeAdded=EARLIER), taint(key="b", timeAdded=EARLIER))
    new = cluster(taint(timeAdded=EARLIER), taint(key="b", effect="NoSelectIfNew"), taint(key="c"))
    stamped = stamp_taints(new, old, NOW)
    assert [one["timeAdded"] for one in stamped["spec"]["taints"]] == [EARLIER, STAMP, STAMP]
    assert stamp_taints(old, old, NOW) is old


@pytest.mark.parametrize(
    "sent",
    [
        taint(key="new", timeAdded=EARLIER),
        taint(key="new", timeAdded=STAMP),
        taint(effect="NoSelectIfNew", timeAdded=EARLIER),
        taint(timeAdded=STAMP),
        taint(),
    ],
)
def test_time_of_a_taint_cannot_be_chosen_on_update(sent: Raw) -> None:
    text = f'It is not allowed to set TimeAdded of Taint "{sent["key"]}".'
    with pytest.raises(BadRequest, match=text):
        stamp_taints(cluster(sent), cluster(taint(timeAdded=EARLIER)), NOW)


def test_times_that_an_earlier_call_for_the_same_request_has_set_are_forgotten() -> None:
    old = cluster(taint(timeAdded=STAMP))
    sent = cluster(taint(timeAdded=STAMP), taint(key="new", timeAdded=STAMP), taint(key="b", timeAdded=EARLIER))
    forgotten = without_recent_stamps(sent, old, NOW)
    assert [one["timeAdded"] for one in forgotten["spec"]["taints"]] == [STAMP, None, EARLIER]
    assert without_recent_stamps(old, old, NOW) is old
    twice = without_recent_stamps(cluster(taint(timeAdded=STAMP), taint(key="new", timeAdded=STAMP)), old, NOW)
    assert stamp_taints(twice, old, NOW)["spec"]["taints"][1]["timeAdded"] == STAMP


def test_two_taints_with_one_key_are_told_apart() -> None:
    old = cluster(taint(timeAdded=EARLIER), taint(effect="NoSelectIfNew", timeAdded=STAMP))
    assert stamp_taints(old, old, NOW) is old


def test_missing_times_are_set_where_no_webhook_did_it() -> None:
    stamped = stamp_unset_taints(cluster(taint(timeAdded=EARLIER), taint(key="b")), None, NOW)
    assert [one["timeAdded"] for one in stamped["spec"]["taints"]] == [EARLIER, STAMP]
    assert stamp_unset_taints(stamped, None, NOW) is stamped


def test_taint_that_an_administrator_sends_without_its_time_keeps_it() -> None:
    stamped = stamp_unset_taints(cluster(taint(), taint(key="b")), cluster(taint(timeAdded=EARLIER)), NOW)
    assert [one["timeAdded"] for one in stamped["spec"]["taints"]] == [EARLIER, STAMP]


def test_accepting_a_cluster_needs_a_permission_and_a_live_namespace() -> None:
    namespace, access = managed_cluster_requirements(cluster(hubAcceptsClient=True), cluster())
    assert isinstance(namespace, LiveNamespace)
    assert isinstance(access, RequiredAccess)
    assert namespace.name == "a"
    assert access[:6] == ("update", "register.open-cluster-management.io", "managedclusters", "accept", "a", "")
    refusal = access.refusal("eve")
    assert isinstance(refusal, Forbidden)
    assert refusal.message == (
        'managedclusters/accept.cluster.open-cluster-management.io "a" is forbidden: '
        'user "eve" cannot update the HubAcceptsClient field'
    )
    assert namespace.refusal().message.endswith('cluster namespace "a" is terminating')
    accepted = cluster(hubAcceptsClient=True)
    assert managed_cluster_requirements(accepted, accepted) == []
    assert managed_cluster_requirements(cluster(), accepted) == []
    assert len(managed_cluster_requirements(accepted, None)) == 2


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [("", "b", ["b"]), ("a", "b", ["a", "b"]), ("a", "", ["a"]), ("a", "a", []), ("", "", [])],
)
def test_moving_a_cluster_between_sets_needs_a_permission_for_both(before: str, after: str, names: list[str]) -> None:
    found = managed_cluster_requirements(cluster(set_name=after), cluster(set_name=before))
    assert [one[:6] for one in found] == [
        ("create", "cluster.open-cluster-management.io", "managedclustersets", "join", name, "") for name in names
    ]
    for one in found:
        assert isinstance(one, RequiredAccess)
        assert 'user "eve" cannot add/remove a ManagedCluster to/from' in one.refusal("eve").message


def test_creating_a_set_binding_needs_a_permission_for_the_set() -> None:
    binding = {"metadata": {"name": "s"}, "spec": {"clusterSet": "s"}}
    (access,) = set_binding_requirements(binding, None)
    assert isinstance(access, RequiredAccess)
    assert access[:6] == ("create", "cluster.open-cluster-management.io", "managedclustersets", "bind", "s", "")
    assert access.refusal("eve").message.endswith('user "eve" is not allowed to bind cluster set "s"')
    assert set_binding_requirements(binding, binding) == []
