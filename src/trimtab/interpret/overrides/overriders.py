"""What each kind of overrider does to an object: images, commands, labels, embedded documents, plain patches."""

import json
from collections.abc import Callable
from typing import Any

import yaml

from trimtab.api.paths import planted, table, tables, text
from trimtab.api.value import Raw
from trimtab.interpret.overrides.image import BadImage, override_image
from trimtab.interpret.overrides.override_patch import BadPatch, Step, apply_patch, escape, look_up

_POD_SPEC = {"Pod": ("spec",)} | dict.fromkeys(
    ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), ("spec", "template", "spec")
)


def _image(obj: Raw, overrider: Raw) -> Raw:
    def override(image: Any) -> str:
        if not isinstance(image, str):
            raise BadImage("there is no image to override")
        return override_image(
            image, text(overrider, "component"), text(overrider, "operator"), text(overrider, "value")
        )

    if overrider.get("predicate") is not None:
        path = text(overrider, "predicate", "path")
        return _replaced(obj, path, override(look_up(obj, path)))
    pod_spec_path = _POD_SPEC.get(text(obj, "kind"))
    containers = tables(obj, *pod_spec_path, "containers") if pod_spec_path else []
    if not pod_spec_path or not containers:
        return obj
    return planted(
        obj, [{**c, "image": override(c.get("image", ""))} for c in containers], *pod_spec_path, "containers"
    )


def _replaced(obj: Raw, path: str, value: Any) -> Raw:
    patched: Raw = apply_patch(obj, [Step("replace", path, value)])
    return patched


def _words(field: str) -> Callable[[Raw, Raw], Raw]:
    """Changes `command` or `args` of the containers with one name."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        pod_spec_path = _POD_SPEC.get(text(obj, "kind"))
        containers = tables(obj, *pod_spec_path, "containers") if pod_spec_path else []
        if not pod_spec_path or not containers:
            return obj
        name = text(overrider, "containerName")
        changed = [_reworded(c, field, overrider) if c.get("name") == name else c for c in containers]
        return planted(obj, changed, *pod_spec_path, "containers")

    return change


def _reworded(container: Raw, field: str, overrider: Raw) -> Raw:
    strings, values = container.get(field), overrider.get("value") or []
    if overrider.get("operator") == "add":
        return {**container, field: [*(strings or []), *values]}
    if overrider.get("operator") == "remove" and strings is not None:
        return {**container, field: [string for string in strings if string not in values]}
    return container


def _marks(field: str) -> Callable[[Raw, Raw], Raw]:
    """Changes `labels` or `annotations`: add sets, replace and remove act on existing keys."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        current, operator = table(obj, "metadata", field), text(overrider, "operator")
        values = table(overrider, "value")
        if operator == "add":
            return planted(obj, current | values, "metadata", field) if values else obj
        existing = [key for key in sorted(values) if key in current]
        steps = [Step(operator, f"/metadata/{field}/{escape(key)}", values[key]) for key in existing]
        patched: Raw = apply_patch(obj, steps)
        return patched

    return change


def _field(obj: Raw, overrider: Raw) -> Raw:
    """Patch a document that is stored as text in a field."""
    path = text(overrider, "fieldPath")
    content = look_up(obj, path)
    if not isinstance(content, str):
        raise BadPatch(f"Get object's value by overrider's path({path}) is not string")
    syntax = "yaml" if overrider.get("yaml") else "json"
    steps = [Step(text(s, "operator"), text(s, "subPath"), s.get("value")) for s in tables(overrider, syntax)]
    read, write = _SYNTAX[syntax]
    try:
        document = read(content)
    except (yaml.YAMLError, ValueError) as error:
        raise BadPatch(f"the field {path} is not {syntax.upper()}: {error}") from error
    return _replaced(obj, path, write(apply_patch(document, steps)))


def _write_yaml(document: Any) -> str:
    return str(yaml.safe_dump(document, default_flow_style=False, allow_unicode=True, width=1 << 20))


def _write_json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


_SYNTAX: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "yaml": (yaml.safe_load, _write_yaml),
    "json": (json.loads, _write_json),
}


def _plaintext(obj: Raw, overrider: Raw) -> Raw:
    step = Step(text(overrider, "operator"), text(overrider, "path"), overrider.get("value"))
    patched: Raw = apply_patch(obj, [step])
    return patched


CHANGES: dict[str, Callable[[Raw, Raw], Raw]] = {
    "imageOverrider": _image,
    "commandOverrider": _words("command"),
    "argsOverrider": _words("args"),
    "labelsOverrider": _marks("labels"),
    "annotationsOverrider": _marks("annotations"),
    "fieldOverrider": _field,
    "plaintext": _plaintext,
}
"""The fields of an `overriders` block, in the order in which they are applied."""
