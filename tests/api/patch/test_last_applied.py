"""The annotation of client-side apply, for objects that change to server-side apply."""

import orjson

from trimtab.api.patch.last_applied import ANNOTATION, fields_to_take_over, with_configuration
from trimtab.api.patch.merge_schema import UNKNOWN_SCHEMA

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"kept": "1", "changed": "1"}}


def live(config: dict[str, object] | str, **data: str) -> dict[str, object]:
    text = config if isinstance(config, str) else orjson.dumps(config).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "annotations": {ANNOTATION: text}},
        "data": data,
    }


def test_fields_that_still_have_their_applied_value_are_taken_over() -> None:
    fields = str(fields_to_take_over(live(CONFIG, kept="1", changed="2"), UNKNOWN_SCHEMA, "v1"))
    assert "kept" in fields
    assert "changed" not in fields


def test_nothing_is_taken_over_from_another_version_or_an_unreadable_annotation() -> None:
    assert fields_to_take_over(live(CONFIG, kept="1"), UNKNOWN_SCHEMA, "v2") == {}
    for text in ("", "{", "[]"):
        assert fields_to_take_over(live(text, kept="1"), UNKNOWN_SCHEMA, "v1") == {}


def test_annotation_follows_the_applied_configuration_without_itself() -> None:
    applied = {**CONFIG, "metadata": {"name": "a", "annotations": {ANNOTATION: "old", "team": "blue"}}}
    found = with_configuration(live(CONFIG), applied)
    stored = orjson.loads(found["metadata"]["annotations"][ANNOTATION])
    assert stored["metadata"] == {"name": "a", "annotations": {"team": "blue"}}
    without: dict[str, object] = {"metadata": {"name": "a"}}
    assert with_configuration(without, applied) is without
