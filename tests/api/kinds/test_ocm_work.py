"""ManifestWork, ManifestWorkReplicaSet and AppliedManifestWork."""

from api.kinds.kind_helpers import decode, reencode, schema_error_fields, with_schema_defaults
from trimtab.api.kinds.ocm_work import AppliedManifestWork, ManifestWork, ManifestWorkReplicaSet


def test_delete_option_and_update_strategy_have_defaults() -> None:
    config = {"resourceIdentifier": {"resource": "configmaps", "name": "a"}, "updateStrategy": {}}
    spec = with_schema_defaults(ManifestWork, {"spec": {"deleteOption": {}, "manifestConfigs": [config]}})["spec"]
    assert spec["deleteOption"] == {"propagationPolicy": "Foreground"}
    assert spec["manifestConfigs"][0]["updateStrategy"] == {"type": "Update"}


def test_replica_set_requires_a_placement_and_defaults_to_rollout_of_all() -> None:
    raw = {"spec": {"manifestWorkTemplate": {}, "placementRefs": []}}
    assert schema_error_fields(ManifestWorkReplicaSet, raw) == ["spec.placementRefs"]
    raw["spec"]["placementRefs"] = [{"name": "p"}]
    (reference,) = with_schema_defaults(ManifestWorkReplicaSet, raw)["spec"]["placementRefs"]
    assert reference["rolloutStrategy"]["type"] == "All"
    assert reference["rolloutStrategy"]["all"]["progressDeadline"] == "None"


def test_rollout_concurrency_is_a_number_or_percent() -> None:
    def errors(value: str) -> list[str]:
        strategy = {"type": "Progressive", "progressive": {"maxConcurrency": value}}
        references = [{"name": "p", "rolloutStrategy": strategy}]
        return schema_error_fields(
            ManifestWorkReplicaSet, {"spec": {"manifestWorkTemplate": {}, "placementRefs": references}}
        )

    assert errors("25%") == []
    assert errors("many") == ["spec.placementRefs[0].rolloutStrategy.progressive.maxConcurrency"]


def test_field_names_that_are_not_camel_case_keep_their_spelling() -> None:
    raw = {"metadata": {"name": "a"}, "spec": {"hubHash": "h", "agentID": "x", "manifestWorkName": "w"}}
    assert decode(AppliedManifestWork, raw).spec.agent_id == "x"
    assert reencode(AppliedManifestWork, raw)["spec"] == raw["spec"]
