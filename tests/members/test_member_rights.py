"""The rights of the control plane in a member: kinds by name, and nothing that gives it more."""

import pytest

from trimtab.members.member_rights import (
    ALL_RIGHTS,
    DEFAULT_RIGHTS,
    RBAC,
    MemberRights,
    describe_remedy,
    is_forbidden,
)
from trimtab.runtime.propagatable import DEFAULT_KINDS, parse_kinds
from trimtab.server.auth.authorize import Action, rule_allows

DANGEROUS = [
    Action("create", "", "pods", subresource="exec"),
    Action("get", "", "pods", subresource="exec"),
    Action("patch", "", "pods", subresource="ephemeralcontainers"),
    Action("get", "", "nodes", subresource="proxy"),
    Action("create", "", "serviceaccounts", subresource="token"),
    Action("update", "", "nodes"),
    Action("escalate", RBAC, "clusterroles"),
    Action("bind", RBAC, "clusterroles"),
    Action("create", RBAC, "clusterrolebindings"),
    Action("impersonate", "", "users"),
    Action("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    Action("update", "certificates.k8s.io", "certificatesigningrequests", subresource="approval"),
    Action("update", "apiregistration.k8s.io", "apiservices"),
    Action("get", "", "", path="/metrics"),
]


def allows(rights: MemberRights, action: Action) -> bool:
    return any(rule_allows(rule, action) for rule in rights.rules())


@pytest.mark.parametrize("action", DANGEROUS, ids=lambda action: f"{action.verb} {action.full_resource}{action.path}")
def test_default_allows_nothing_that_gives_more_rights(action: Action) -> None:
    assert not allows(DEFAULT_RIGHTS, action)


def test_default_allows_what_applications_consist_of() -> None:
    for group, resources in DEFAULT_KINDS.items():
        for resource in resources:
            assert all(allows(DEFAULT_RIGHTS, Action(verb, group, resource)) for verb in ("list", "create", "delete"))
    assert allows(DEFAULT_RIGHTS, Action("create", "", "namespaces"))
    assert allows(DEFAULT_RIGHTS, Action("watch", "", "nodes"))
    assert allows(DEFAULT_RIGHTS, Action("get", "", "", path="/readyz"))


def test_named_kinds_replace_or_extend_the_default() -> None:
    only = MemberRights(parse_kinds("deployments.apps, configmaps"))
    assert allows(only, Action("create", "apps", "deployments"))
    assert not allows(only, Action("get", "", "secrets"))
    assert allows(only, Action("watch", "", "pods")), "capacity is always observed"
    assert not allows(only, Action("create", "", "pods"))
    more = MemberRights(parse_kinds("default,*.example.com"))
    assert allows(more, Action("create", "example.com", "widgets"))
    assert allows(more, Action("create", "apps", "deployments"))
    assert not allows(more, Action("create", "example.org", "widgets"))


def test_roles_are_written_only_when_allowed() -> None:
    every = MemberRights(parse_kinds("*"))
    assert allows(every, Action("create", "example.org", "widgets"))
    assert not allows(every, Action("escalate", RBAC, "clusterroles"))
    assert allows(ALL_RIGHTS, Action("escalate", RBAC, "clusterroles"))
    roles = MemberRights(allow_rbac=True)
    assert allows(roles, Action("bind", RBAC, "roles"))
    assert allows(roles, Action("create", RBAC, "rolebindings"))


def test_refusal_of_a_member_is_recognised_and_has_a_remedy() -> None:
    assert is_forbidden(
        'widgets.example.com is forbidden: User "system:serviceaccount:karmada-cluster:karmada-east" cannot'
    )
    assert not is_forbidden("the cluster east does not serve example.com/v1 Widget")
    assert "trimtab join east --kinds default,PLURAL.GROUP --print" in describe_remedy("east")
