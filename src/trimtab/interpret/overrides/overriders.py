"""What each kind of overrider does to an object: images, commands, labels, embedded documents, plain patches."""

import json
from collections.abc import Callable
from typing import Any

import yaml

from trimtab.api.json_bounds import check_depth
from trimtab.api.paths import object_at, objects_at, string_at, with_value
from trimtab.api.value import Raw
from trimtab.api.yaml_documents import load_yaml
from trimtab.interpret.overrides.image import InvalidImage, override_image
from trimtab.interpret.overrides.override_patch import (
    InvalidPatch,
    PatchOperation,
    apply_patch,
    escape_pointer_segment,
    value_at_pointer,
)

_POD_SPEC = {"Pod": ("spec",)} | dict.fromkeys(
    ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), ("spec", "template", "spec")
)


def _apply_image_overrider(obj: Raw, overrider: Raw) -> Raw:
    def override(image: Any) -> str:
        if not isinstance(image, str):
            raise InvalidImage("there is no image to override")
        return override_image(
            image, string_at(overrider, "component"), string_at(overrider, "operator"), string_at(overrider, "value")
        )

    if overrider.get("predicate") is not None:
        path = string_at(overrider, "predicate", "path")
        return _replace_at(obj, path, override(value_at_pointer(obj, path)))
    pod_spec_path = _POD_SPEC.get(string_at(obj, "kind"))
    containers = objects_at(obj, *pod_spec_path, "containers") if pod_spec_path else []
    if not pod_spec_path or not containers:
        return obj
    return with_value(
        obj, [{**c, "image": override(c.get("image", ""))} for c in containers], *pod_spec_path, "containers"
    )


def _replace_at(obj: Raw, path: str, value: Any) -> Raw:
    patched: Raw = apply_patch(obj, [PatchOperation("replace", path, value)])
    return patched


def _string_list_overrider(field: str) -> Callable[[Raw, Raw], Raw]:
    """Changes `command` or `args` of the containers with one name."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        pod_spec_path = _POD_SPEC.get(string_at(obj, "kind"))
        containers = objects_at(obj, *pod_spec_path, "containers") if pod_spec_path else []
        if not pod_spec_path or not containers:
            return obj
        name = string_at(overrider, "containerName")
        changed = [_override_string_list(c, field, overrider) if c.get("name") == name else c for c in containers]
        return with_value(obj, changed, *pod_spec_path, "containers")

    return change


def _override_string_list(container: Raw, field: str, overrider: Raw) -> Raw:
    strings, values = container.get(field), overrider.get("value") or []
    if overrider.get("operator") == "add":
        return {**container, field: [*(strings or []), *values]}
    if overrider.get("operator") == "remove" and strings is not None:
        return {**container, field: [string for string in strings if string not in values]}
    return container


def _metadata_map_overrider(field: str) -> Callable[[Raw, Raw], Raw]:
    """Changes `labels` or `annotations`: add sets, replace and remove act on existing keys."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        current, operator = object_at(obj, "metadata", field), string_at(overrider, "operator")
        values = object_at(overrider, "value")
        if operator == "add":
            return with_value(obj, current | values, "metadata", field) if values else obj
        existing = [key for key in sorted(values) if key in current]
        steps = [
            PatchOperation(operator, f"/metadata/{field}/{escape_pointer_segment(key)}", values[key])
            for key in existing
        ]
        patched: Raw = apply_patch(obj, steps)
        return patched

    return change


def _apply_field_overrider(obj: Raw, overrider: Raw) -> Raw:
    """Patch a document that is stored as text in a field."""
    path = string_at(overrider, "fieldPath")
    content = value_at_pointer(obj, path)
    if not isinstance(content, str):
        raise InvalidPatch(f"Get object's value by overrider's path({path}) is not string")
    syntax = "yaml" if overrider.get("yaml") else "json"
    steps = [
        PatchOperation(string_at(s, "operator"), string_at(s, "subPath"), s.get("value"))
        for s in objects_at(overrider, syntax)
    ]
    read, write = _CODECS[syntax]
    try:
        document = read(content)
    except ValueError as error:
        raise InvalidPatch(f"the field {path} is not {syntax.upper()}: {error}") from error
    return _replace_at(obj, path, write(apply_patch(document, steps)))


def _write_yaml(document: Any) -> str:
    return str(yaml.safe_dump(document, default_flow_style=False, allow_unicode=True, width=1 << 20))


def _read_json(text: str) -> Any:
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    check_depth(document)
    return document


def _write_json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


_CODECS: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "yaml": (load_yaml, _write_yaml),
    "json": (_read_json, _write_json),
}


def _apply_plaintext_overrider(obj: Raw, overrider: Raw) -> Raw:
    step = PatchOperation(string_at(overrider, "operator"), string_at(overrider, "path"), overrider.get("value"))
    patched: Raw = apply_patch(obj, [step])
    return patched


OVERRIDERS: dict[str, Callable[[Raw, Raw], Raw]] = {
    "imageOverrider": _apply_image_overrider,
    "commandOverrider": _string_list_overrider("command"),
    "argsOverrider": _string_list_overrider("args"),
    "labelsOverrider": _metadata_map_overrider("labels"),
    "annotationsOverrider": _metadata_map_overrider("annotations"),
    "fieldOverrider": _apply_field_overrider,
    "plaintext": _apply_plaintext_overrider,
}
"""The fields of an `overriders` block, in the order in which they are applied."""
