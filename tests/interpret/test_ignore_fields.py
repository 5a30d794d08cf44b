from typing import Any

import pytest

from trimtab.api.jsonpath import InvalidJSONPath
from trimtab.interpret.ignore_fields import jq_to_json_path, with_ignored_fields

MANIFEST: dict[str, Any] = {
    "spec": {
        "replicas": 2,
        "paused": True,
        "template": {"containers": [{"name": "main", "image": "a:1"}, {"name": "side", "image": "s:1"}]},
        "ports": [1, 2],
    }
}
OBSERVED: dict[str, Any] = {
    "spec": {
        "replicas": 7,
        "template": {"containers": [{"name": "side", "image": "s:9"}, {"name": "main", "image": "a:9"}]},
        "ports": [8, 9],
    }
}


@pytest.mark.parametrize(
    ("rule", "location", "value"),
    [
        ({"jsonPaths": [".spec.replicas"]}, ("replicas",), 7),
        ({"jsonPointers": ["/spec/replicas"]}, ("replicas",), 7),
        ({"jsonPointers": ["/spec/ports/1"]}, ("ports",), [1, 9]),
        ({"jsonPointers": ["/spec/nothing"]}, ("replicas",), 2),
        ({"jqPathExpressions": [".spec.replicas"]}, ("replicas",), 7),
        ({"jsonPaths": [".spec.template.containers[0].image"]}, ("template", "containers", 0, "image"), "a:9"),
        (
            {"jqPathExpressions": ['.spec.template.containers[] | select(.name == "main") | .image']},
            ("template", "containers", 0, "image"),
            "a:9",
        ),
        (
            {"jsonPaths": ['.spec.template.containers[?(@.name=="side")].image']},
            ("template", "containers", 0, "image"),
            "a:1",
        ),
    ],
)
def test_named_fields_are_taken_from_the_member_and_others_from_the_manifest(
    rule: dict[str, Any], location: tuple[Any, ...], value: Any
) -> None:
    found: Any = with_ignored_fields(MANIFEST, OBSERVED, rule)["spec"]
    for key in location:
        found = found[key]
    assert found == value


def test_field_removed_in_the_member_stays_removed() -> None:
    assert "paused" not in with_ignored_fields(MANIFEST, OBSERVED, {"jsonPaths": [".spec.paused"]})["spec"]
    assert MANIFEST["spec"]["paused"] is True


def test_jq_expression_that_is_not_a_path_is_rejected() -> None:
    assert jq_to_json_path('.metadata.annotations["a.b/c"]') == '.metadata.annotations["a.b/c"]'
    for expression in ("del(.spec)", ".spec | keys", ".spec[", "env", ".. | .image"):
        with pytest.raises(InvalidJSONPath):
            jq_to_json_path(expression)
    with pytest.raises(InvalidJSONPath):
        with_ignored_fields(MANIFEST, OBSERVED, {"jsonPointers": ["spec"]})
