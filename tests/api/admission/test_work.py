"""Validation of bindings."""

from api.admission.admission_helpers import errors_of


def test_dependencies_must_be_a_json_list_and_component_names_unique() -> None:
    kind = "resourcebindings.work.karmada.io"
    annotated = {"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": "{}"}}, "spec": {}}
    assert len(errors_of(kind, annotated)) == 1
    assert errors_of(kind, {"spec": {"components": [{"name": "a"}, {"name": "a"}]}}) != []
