from api.kinds.kind_helpers import decode
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.access import ClusterRole, ClusterRoleBinding, Role, RoleBinding


def test_cluster_role_keeps_non_resource_urls_and_aggregation() -> None:
    selector = {"matchLabels": {"rbac.example.io/aggregate": "true"}}
    role = decode(
        ClusterRole,
        {
            "metadata": {"name": "r"},
            "rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            "aggregationRule": {"clusterRoleSelectors": [selector]},
        },
    )
    assert role.rules is not None
    assert role.rules[0].non_resource_urls == ("/healthz",)
    assert role.aggregation_rule is not None
    assert role.aggregation_rule.cluster_role_selectors[0].matches({"rbac.example.io/aggregate": "true"})


def test_role_may_have_null_rules() -> None:
    assert decode(Role, {"metadata": {"name": "r"}, "rules": None}).rules is None


def test_role_binding_keeps_subjects_and_role_reference() -> None:
    raw = {
        "metadata": {"name": "b"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    }
    binding = decode(RoleBinding, raw)
    assert (binding.subjects[0].name, binding.subjects[0].namespace) == ("s", "n")
    assert (binding.role_ref.kind, binding.role_ref.name) == ("Role", "r")


def test_only_cluster_roles_and_their_bindings_are_cluster_scoped() -> None:
    assert [kind_of(one).namespaced for one in (Role, RoleBinding, ClusterRole, ClusterRoleBinding)] == [
        True,
        True,
        False,
        False,
    ]
