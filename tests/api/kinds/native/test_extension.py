from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.extension import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)


def test_extension_kinds_are_cluster_scoped_and_share_a_category() -> None:
    for type_ in (CustomResourceDefinition, MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
        kind = kind_of(type_)
        assert not kind.namespaced, type_
        assert list(kind.categories) == ["api-extensions"], type_


def test_only_definitions_have_a_status_subresource() -> None:
    assert kind_of(CustomResourceDefinition).status
    assert not kind_of(ValidatingWebhookConfiguration).status


def test_definition_is_decoded_without_its_schema() -> None:
    raw = {"metadata": {"name": "as.x.io"}, "spec": {"group": "x.io", "versions": [{"schema": {"a": 1}}]}}
    definition = kind_of(CustomResourceDefinition).decode(raw)
    assert definition.name == "as.x.io"
    assert "spec" not in kind_of(CustomResourceDefinition).encode(definition)
