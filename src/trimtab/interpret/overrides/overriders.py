"""What each kind of overrider does to one object: images, commands, labels, embedded documents, plain patches."""

import json
from collections.abc import Callable
from typing import Any

import yaml

from trimtab.api.value import Raw
from trimtab.interpret.overrides.image import BadImage, override_image
from trimtab.interpret.overrides.override_patch import BadPatch, Step, apply_patch, escape, look_up
from trimtab.interpret.paths import planted, table, tables, text

_POD_SPEC = {"Pod": ("spec",)} | dict.fromkeys(
    ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), ("spec", "template", "spec")
)


def _image(obj: Raw, overrider: Raw) -> Raw:
    def changed(image: Any) -> str:
        if not isinstance(image, str):
            raise BadImage("there is no image to override")
        return override_image(
            image, text(overrider, "component"), text(overrider, "operator"), text(overrider, "value")
        )

    if overrider.get("predicate") is not None:
        path = text(overrider, "predicate", "path")
        return _replaced(obj, path, changed(look_up(obj, path)))
    place = _POD_SPEC.get(text(obj, "kind"))
    containers = tables(obj, *place, "containers") if place else []
    if not place or not containers:
        return obj
    return planted(obj, [{**c, "image": changed(c.get("image", ""))} for c in containers], *place, "containers")


def _replaced(obj: Raw, path: str, value: Any) -> Raw:
    patched: Raw = apply_patch(obj, [Step("replace", path, value)])
    return patched


def _words(field: str) -> Callable[[Raw, Raw], Raw]:
    """`command` or `args` of the containers of one name."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        place = _POD_SPEC.get(text(obj, "kind"))
        containers = tables(obj, *place, "containers") if place else []
        if not place or not containers:
            return obj
        meant = text(overrider, "containerName")
        changed = [_reworded(c, field, overrider) if c.get("name") == meant else c for c in containers]
        return planted(obj, changed, *place, "containers")

    return change


def _reworded(container: Raw, field: str, overrider: Raw) -> Raw:
    words, given = container.get(field), overrider.get("value") or []
    if overrider.get("operator") == "add":
        return {**container, field: [*(words or []), *given]}
    if overrider.get("operator") == "remove" and words is not None:
        return {**container, field: [word for word in words if word not in given]}
    return container


def _marks(field: str) -> Callable[[Raw, Raw], Raw]:
    """`labels` or `annotations`: add sets, replace and remove act on what is there."""

    def change(obj: Raw, overrider: Raw) -> Raw:
        marks, operator = table(obj, "metadata", field), text(overrider, "operator")
        given = table(overrider, "value")
        if operator == "add":
            return planted(obj, marks | given, "metadata", field) if given else obj
        known = [key for key in sorted(given) if key in marks]
        steps = [Step(operator, f"/metadata/{field}/{escape(key)}", given[key]) for key in known]
        patched: Raw = apply_patch(obj, steps)
        return patched

    return change


def _field(obj: Raw, overrider: Raw) -> Raw:
    """A document kept as text inside a field, patched and written back."""
    path = text(overrider, "fieldPath")
    written = look_up(obj, path)
    if not isinstance(written, str):
        raise BadPatch(f"Get object's value by overrider's path({path}) is not string")
    syntax = "yaml" if overrider.get("yaml") else "json"
    steps = [Step(text(s, "operator"), text(s, "subPath"), s.get("value")) for s in tables(overrider, syntax)]
    read, write = _SYNTAX[syntax]
    try:
        document = read(written)
    except (yaml.YAMLError, ValueError) as bad:
        raise BadPatch(f"the field {path} is not {syntax.upper()}: {bad}") from bad
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
"""What an `overriders` block may hold, in the order in which it is applied."""
