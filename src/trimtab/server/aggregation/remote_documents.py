"""Reads the discovery and OpenAPI documents of another API server; what is malformed is left out."""

from collections.abc import Mapping
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.server.aggregation.remote_address import CannotReach


def read_json(body: bytes) -> Raw:
    """A JSON object; ValueError or `CannotReach` for anything else."""
    found = orjson.loads(body)
    if not isinstance(found, dict):
        raise CannotReach("the document is not a JSON object")
    return found


def resource_entries(document: Raw, group: str, version: str) -> tuple[Raw, ...]:
    """The resources of an APIResourceList as entries of aggregated discovery."""
    entries: dict[str, Raw] = {}
    subresources: dict[str, list[Raw]] = {}
    for one in _objects(document.get("resources")):
        name, _, subresource = _text(one.get("name")).partition("/")
        kind = {
            "group": _text(one.get("group")) or group,
            "version": _text(one.get("version")) or version,
            "kind": _text(one.get("kind")),
        }
        if not name or not kind["kind"]:
            continue
        if subresource:
            entry: Raw = {"subresource": subresource, "responseKind": kind, "verbs": _texts(one.get("verbs"))}
            subresources.setdefault(name, []).append(entry)
        else:
            entries[name] = {
                "resource": name,
                "responseKind": kind,
                "scope": "Namespaced" if one.get("namespaced") is True else "Cluster",
                "singularResource": _text(one.get("singularName")),
                "verbs": _texts(one.get("verbs")),
                **{key: _texts(one[key]) for key in ("shortNames", "categories") if one.get(key)},
            }
    for name, listed in subresources.items():
        if name in entries:
            entries[name]["subresources"] = listed
    return tuple(entries.values())


def schema_hash(index: Raw, group: str, version: str) -> str:
    """The hash in the address of an OpenAPI v3 document; empty when the server has no such document."""
    paths = index.get("paths")
    entry = paths.get(f"apis/{group}/{version}") if isinstance(paths, dict) else None
    address = _text(entry.get("serverRelativeURL")) if isinstance(entry, dict) else ""
    _, _, found = address.partition("hash=")
    return "".join(character for character in found.partition("&")[0] if character.isalnum())[:256]


def swagger_of_group(document: Raw, group: str) -> tuple[Mapping[str, Raw], Mapping[str, Raw]]:
    """The paths of a group in an OpenAPI v2 document, and the definitions; shared parameters become part of the paths."""
    shared = document.get("parameters")
    parameters: Raw = shared if isinstance(shared, dict) else {}
    paths = _members(document.get("paths"))
    own = {
        path: _with_parameters(item, parameters)
        for path, item in paths.items()
        if f"{path}/".startswith(f"/apis/{group}/")
    }
    return own, _members(document.get("definitions"))


def _with_parameters(item: Raw, parameters: Raw) -> Raw:
    """An item of a path, or an operation, without references to the parameters of its document."""
    changed: Raw = {}
    for key, value in item.items():
        if key == "parameters" and isinstance(value, list):
            changed[key] = [_resolve(one, parameters) for one in value]
        else:
            changed[key] = (
                _with_parameters(value, parameters) if isinstance(value, dict) and key != "responses" else value
            )
    return changed


def _resolve(parameter: Any, parameters: Raw) -> Any:
    reference = parameter.get("$ref") if isinstance(parameter, dict) else None
    return parameters.get(_text(reference).removeprefix("#/parameters/"), parameter) if reference else parameter


def _members(value: Any) -> dict[str, Raw]:
    return {key: one for key, one in value.items() if isinstance(one, dict)} if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Raw]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
