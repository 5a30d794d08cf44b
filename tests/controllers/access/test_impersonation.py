"""Who may use the proxy of a cluster is whom the impersonator of the member may act as."""

from typing import Any

from builders import cluster
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster, LocalSecretReference
from trimtab.api.kinds.native.access import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Meta
from trimtab.controllers.access.impersonation import (
    cluster_of_namespace,
    clusters_of_role,
    clusters_of_role_binding,
    impersonation,
    reference_changed,
)
from trimtab.controllers.contract import Delete, RecordEvent

SPACE = Namespace(metadata=Meta(name="karmada-es-m1"))
REFERENCE = LocalSecretReference(namespace="karmada-cluster", name="m1-impersonator")


def member(name: str = "m1") -> Cluster:
    return cluster(name, impersonator_secret_ref=REFERENCE)


def role(*rules: PolicyRule, name: str = "proxy") -> ClusterRole:
    return ClusterRole(metadata=Meta(name=name), rules=rules)


def rule(resource: str = "clusters/proxy", group: str = "cluster.karmada.io", names: Any = ()) -> PolicyRule:
    return PolicyRule(verbs=("*",), api_groups=(group,), resources=(resource,), resource_names=names)


def granted(*subjects: str, to: str = "proxy", name: str = "b") -> ClusterRoleBinding:
    pairs = [subject.split(":") for subject in subjects]
    return ClusterRoleBinding(
        metadata=Meta(name=name),
        subjects=tuple(Subject(kind=kind, name=who) for kind, who in pairs),
        role_ref=RoleRef(kind="ClusterRole", name=to),
    )


def impersonated(*objects: Any) -> dict[str, list[str]]:
    subject = member()
    effects = list(impersonation(subject, FakeView([subject, SPACE, *objects])))
    works = [effect for effect in effects if isinstance(effect, Work)]
    (found,) = (m for w in works for m in w.spec.workload.manifests if m["kind"] == "ClusterRole")
    assert all(one["verbs"] == ["impersonate"] and one["apiGroups"] == [""] for one in found["rules"])
    return {one["resources"][0]: one["resourceNames"] for one in found["rules"]}


def test_subjects_that_may_use_the_proxy_are_impersonated_by_kind() -> None:
    objects = (role(rule()), granted("User:tom", "Group:ops", "User:ann", "ServiceAccount:bot"))
    assert impersonated(*objects) == {"users": ["ann", "tom"], "serviceaccounts": ["bot"], "groups": ["ops"]}


def test_role_for_another_cluster_another_resource_or_without_a_binding_opens_nothing() -> None:
    tom = granted("User:tom")
    assert impersonated(role(rule(names=("m2",))), tom) == {}
    assert impersonated(role(rule("clusters")), tom) == {}
    assert impersonated(role(rule(group="apps")), tom) == {}
    assert impersonated(role(rule(names=("m2", "m1")))) == {}
    assert impersonated(role(rule(names=("m2", "m1"))), tom) == {"users": ["tom"]}


def test_wildcards_and_the_search_proxy_open_every_cluster() -> None:
    tom = granted("User:tom")
    for one in (rule("*", "*"), rule("*/proxy"), rule("proxying/proxy", "search.karmada.io")):
        assert impersonated(role(one), tom) == {"users": ["tom"]}


def test_account_of_the_reference_gets_the_role_and_the_cluster_owns_the_works() -> None:
    effects = list(impersonation(member(), FakeView([member(), SPACE])))
    works = [effect for effect in effects if isinstance(effect, Work)]
    assert [work.metadata.owner_references[0].name for work in works] == ["m1", "m1"]
    manifest = works[1].spec.workload.manifests[0]
    assert manifest["subjects"] == [
        {"kind": "ServiceAccount", "name": "karmada-impersonator", "namespace": "karmada-cluster"}
    ]
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == [
        "SyncImpersonationConfigSucceed"
    ]
    assert list(impersonation(member(), FakeView([member(), SPACE, *works]))) == []


def test_works_exist_only_while_the_cluster_has_an_impersonator() -> None:
    works = [e for e in impersonation(member(), FakeView([member(), SPACE])) if isinstance(e, Work)]
    without = cluster("m1")
    assert list(impersonation(without, FakeView([without, SPACE]))) == []
    deleted = [e for e in impersonation(without, FakeView([without, SPACE, *works])) if isinstance(e, Delete)]
    assert len(deleted) == 2
    assert reference_changed(member(), without)
    assert not reference_changed(without, without)


def test_cluster_without_its_namespace_waits_for_it() -> None:
    view = FakeView([member()])
    assert list(impersonation(member(), view)) == []
    assert list(cluster_of_namespace(None, SPACE, view)) == [key_of(member())]
    assert list(cluster_of_namespace(None, Namespace(metadata=Meta(name="other")), view)) == []


def test_changes_of_rights_concern_the_clusters_that_they_open_or_opened() -> None:
    m1, m2 = member(), member("m2")
    only_m1, everything = role(rule(names=("m1",))), role(rule())
    view = FakeView([m1, m2, only_m1])
    assert list(clusters_of_role(only_m1, everything, view)) == [key_of(m1), key_of(m2)]
    assert list(clusters_of_role(only_m1, None, view)) == [key_of(m1)]
    assert list(clusters_of_role(only_m1, only_m1, view)) == []
    assert list(clusters_of_role_binding(granted("User:tom"), None, view)) == [key_of(m1)]
    assert list(clusters_of_role_binding(granted("User:tom"), granted("User:ann"), view)) == [key_of(m1)]
    assert list(clusters_of_role_binding(None, granted("User:tom", to="other"), view)) == []
