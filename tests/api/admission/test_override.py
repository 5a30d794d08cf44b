"""Validation of override policies."""

from typing import Any

from api.admission.admission_helpers import errors_of


def test_overriders_of_each_rule_are_validated() -> None:
    def override(**overriders: Any) -> list[str]:
        rules = [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": overriders}]
        return errors_of("clusteroverridepolicies.policy.karmada.io", {"spec": {"overrideRules": rules}})

    assert override(plaintext=[{"path": "/spec", "operator": "remove"}]) == []
    assert override(labelsOverrider=[{"operator": "add", "value": {"a b": "c"}}])[0].startswith(
        "spec.overrideRules[0].overriders.labelsOverrider[0].value: Invalid value"
    )
    both = [{"fieldPath": "/data/a", "json": [{"subPath": "/x", "operator": "add"}], "yaml": [{"subPath": "/x"}]}]
    assert len(override(fieldOverrider=both)) == 3
    assert override(imageOverrider=[{"predicate": {"path": "spec"}, "component": "Tag", "operator": "add"}]) != []


def test_override_rules_exclude_the_deprecated_fields() -> None:
    plain = [{"path": "/a", "operator": "remove"}]
    spec = {"overrideRules": [], "targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": plain}}
    errors = errors_of("clusteroverridepolicies.policy.karmada.io", {"spec": spec})
    assert [(text.partition(":")[0], text.rpartition(": ")[2]) for text in errors] == [
        ("spec.targetCluster", "overrideRules and targetCluster can't co-exist"),
        ("spec.overriders", "overrideRules and overriders can't co-exist"),
    ]


def test_field_overrider_takes_json_or_yaml_and_values_only_where_required() -> None:
    steps = [{"subPath": "/a", "operator": "add"}]
    given = {"fieldPath": "/data/x", "json": steps, "yaml": [{"subPath": "/a", "operator": "remove", "value": 1}]}
    spec = {"overrideRules": [{"overriders": {"fieldOverrider": [given]}}]}
    errors = errors_of("clusteroverridepolicies.policy.karmada.io", {"spec": spec})
    where = "spec.overrideRules[0].overriders.fieldOverrider[0]"
    assert errors[0].endswith("FieldOverrider has both YAML and JSON set. Only one is allowed")
    assert errors[1:] == [
        f"{where}.json[0].value: Invalid value: null: value is required for add or replace operation",
        f"{where}.yaml[0].value: Invalid value: 1: value is not allowed for remove operation",
    ]
