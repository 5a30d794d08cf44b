import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

GROUP = "rbac.authorization.k8s.io/v1"
ROLE: Raw = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
BINDING: Raw = {
    "metadata": {"name": "g"},
    "roleRef": {"kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "u"}],
}


def test_valid_role_is_accepted_on_create_and_update() -> None:
    assert validation_error("rbac.authorization.k8s.io/v1", "Role", ROLE) == ""
    assert validation_error("rbac.authorization.k8s.io/v1", "Role", ROLE, ROLE) == ""


def test_valid_role_binding_is_accepted_on_create_and_update() -> None:
    assert validation_error("rbac.authorization.k8s.io/v1", "RoleBinding", BINDING) == ""
    assert validation_error("rbac.authorization.k8s.io/v1", "RoleBinding", BINDING, BINDING) == ""


def test_rule_without_verbs_is_rejected() -> None:
    role = with_change(ROLE, "rules", to=[{"verbs": [], "apiGroups": [""], "resources": ["pods"]}])
    assert validation_error(GROUP, "Role", role) == (
        "rules[0].verbs: Required value: verbs must contain at least one value"
    )


def test_only_cluster_roles_may_name_non_resource_urls() -> None:
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]
    assert validation_error(GROUP, "ClusterRole", with_change(ROLE, "rules", to=rules)) == ""
    assert validation_error(GROUP, "Role", with_change(ROLE, "rules", to=rules)) == (
        'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs'
    )


def test_aggregated_cluster_role_needs_a_selector() -> None:
    assert validation_error(GROUP, "ClusterRole", {**ROLE, "aggregationRule": {}}) == (
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
        "aggregationRule is non-nil"
    )


def test_selector_of_an_aggregated_cluster_role_is_checked() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
    role = {**ROLE, "aggregationRule": {"clusterRoleSelectors": [{}, selector]}}
    assert validation_error(GROUP, "ClusterRole", role) == (
        "aggregationRule.clusterRoleSelectors[1].matchExpressions[0].operator: "
        'Invalid value: "Gt": not a valid selector operator'
    )


def test_role_of_a_binding_is_immutable() -> None:
    changed = with_change(BINDING, "roleRef", "name", to="other")
    assert validation_error(GROUP, "RoleBinding", changed, BINDING) == (
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: '
        "cannot change roleRef"
    )


@pytest.mark.parametrize(
    ("kind", "subject", "error"),
    [
        ("RoleBinding", {"kind": "ServiceAccount", "name": "s"}, ""),
        ("ClusterRoleBinding", {"kind": "ServiceAccount", "name": "s"}, "subjects[0].namespace: Required value"),
        (
            "RoleBinding",
            {"kind": "Robot", "name": "s"},
            'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
        ),
    ],
)
def test_subjects_are_checked_by_kind_and_scope(kind: str, subject: Raw, error: str) -> None:
    binding = {**BINDING, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [subject]}
    assert validation_error(GROUP, kind, binding) == error
