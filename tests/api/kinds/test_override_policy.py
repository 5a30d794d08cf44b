"""Override policies."""

from api.kinds.kind_helpers import decode, schema_error_fields
from trimtab.api.kind import kind_of
from trimtab.api.kinds.override_policy import ClusterOverridePolicy, OverridePolicy


def test_overriders_are_decoded_with_any_value() -> None:
    plain = [{"path": "/spec/replicas", "operator": "replace", "value": {"any": [1, "a"]}}]
    raw = {"spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": plain}}]}}
    (rule,) = decode(OverridePolicy, raw).spec.override_rules
    assert rule.target_cluster is not None
    assert rule.target_cluster.cluster_names == ("m1",)
    assert rule.overriders.plaintext[0].value == {"any": [1, "a"]}


def test_commands_can_be_added_and_removed_but_not_replaced() -> None:
    def errors(operator: str) -> list[str]:
        overriders = {"commandOverrider": [{"containerName": "c", "operator": operator, "value": ["--x"]}]}
        return schema_error_fields(OverridePolicy, {"spec": {"overrideRules": [{"overriders": overriders}]}})

    assert errors("add") == []
    assert errors("replace") == ["spec.overrideRules[0].overriders.commandOverrider[0].operator"]


def test_only_the_cluster_wide_policy_has_no_namespace() -> None:
    assert kind_of(OverridePolicy).namespaced
    assert not kind_of(ClusterOverridePolicy).namespaced
