import pytest

from trimtab.api.kinds.native.fields import has_message, message, message_name


@pytest.mark.parametrize(
    ("api_version", "kind", "name"),
    [
        ("v1", "Pod", "core.v1.Pod"),
        ("apps/v1", "Deployment", "apps.v1.Deployment"),
        ("rbac.authorization.k8s.io/v1", "Role", "rbac.v1.Role"),
        ("networking.k8s.io/v1", "Ingress", "networking.v1.Ingress"),
        ("apps/v1", "DeleteOptions", "meta.v1.DeleteOptions"),
        ("v1", "Status", "meta.v1.Status"),
        ("policy/v1beta1", "Eviction", "policy.v1.Eviction"),
    ],
)
def test_message_name_is_package_version_and_kind(api_version: str, kind: str, name: str) -> None:
    assert message_name(api_version, kind) == name
    assert has_message(name)


def test_unknown_message_raises_key_error() -> None:
    assert not has_message("core.v1.Frob")
    with pytest.raises(KeyError):
        message("core.v1.Frob")


def test_inline_fields_are_flattened_in_json_only() -> None:
    volume = message("core.v1.Volume")
    assert "configMap" in volume.json_fields
    assert "configMap" not in {field.name for field in volume.declared_fields}
    assert [field.type for field in volume.declared_fields if field.shape == "inline"] == ["core.v1.VolumeSource"]


def test_flags_describe_shape_and_empty_values() -> None:
    spec = message("apps.v1.DeploymentSpec").json_fields
    assert (spec["replicas"].shape, spec["replicas"].omit_zero) == ("one", False)
    assert spec["minReadySeconds"].omit_zero
    assert spec["template"].always_written
    assert spec["selector"].null_when_absent
    assert message("core.v1.PodSpec").json_fields["containers"].shape == "list"
    assert message("meta.v1.ObjectMeta").json_fields["labels"].shape == "map"


def test_only_types_with_their_own_fields_are_messages() -> None:
    container = message("core.v1.Container").json_fields
    assert container["resources"].is_message
    assert not container["name"].is_message
    assert not message("core.v1.ServicePort").json_fields["targetPort"].is_message
