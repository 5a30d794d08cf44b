"""What kube-apiserver rejects in the versions of a CustomResourceDefinition beside their schemas, and in its conversion.

What all versions have in common is reported once, without the index of a version, as kube-apiserver does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported, required, too_many
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_MAX_SELECTABLE_FIELDS = 8
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_MAX_WARNING_LENGTH = 256
_SIMPLE_PATH = "must be a simple json path starting with ."
_FIRST_STEP = re.compile(r"[^.\[]*")

ClientConfigCheck = Callable[[Raw, str], Iterator[Cause]]


def check_versions_content(spec: Raw) -> Iterator[Cause]:
    """Columns, subresources, selectable fields and deprecations of all versions."""
    versions: Sequence[Raw] = spec.get("versions") or []
    for index, version in enumerate(versions):
        yield from _check_deprecation(version, f"spec.versions[{index}].deprecationWarning")
    for value, where, _ in _common_or_each(versions, "subresources"):
        yield from _check_scale(object_at(value or {}, "scale"), f"{where}.scale")
    for value, where, _ in _common_or_each(versions, "additionalPrinterColumns"):
        for index, column in enumerate(value or ()):
            yield from _check_column(column, f"{where}[{index}]")
    for value, where, version in _common_or_each(versions, "selectableFields"):
        schema = object_at(object_at(version, "schema"), "openAPIV3Schema")
        yield from _check_selectable_fields(value or [], schema, where)


def _common_or_each(versions: Sequence[Raw], key: str) -> Iterator[tuple[Any, str, Raw]]:
    """A field of the versions with its path and the version: once if it is the same in all."""
    if versions and all(version.get(key) == versions[0].get(key) for version in versions):
        yield versions[0].get(key), f"spec.{key}", versions[0]
        return
    for index, version in enumerate(versions):
        yield version.get(key), f"spec.versions[{index}].{key}", version


def _check_deprecation(version: Raw, field: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid(field, warning, "can only be set for deprecated versions")
    if not warning:
        yield invalid(field, warning, "must not be an empty string")
    if len(warning) > _MAX_WARNING_LENGTH:
        yield invalid(field, warning, f"must be <= {_MAX_WARNING_LENGTH} characters long")
    unprintable = next((index for index, char in enumerate(warning) if not char.isprintable()), None)
    if unprintable is not None:
        what = f"must only contain printable UTF-8 characters; non-printable character found at index {unprintable}"
        yield invalid(field, warning, what)


def _check_scale(scale: Raw, field: str) -> Iterator[Cause]:
    if not scale:
        return
    for name, parents in (("specReplicasPath", (".spec",)), ("statusReplicasPath", (".status",))):
        if not scale.get(name):
            yield required(f"{field}.{name}")
        else:
            yield from _check_scale_path(scale[name], f"{field}.{name}", parents)
    if selector := scale.get("labelSelectorPath"):
        yield from _check_scale_path(selector, f"{field}.labelSelectorPath", (".spec", ".status"))


def _check_scale_path(path: str, field: str, parents: tuple[str, ...]) -> Iterator[Cause]:
    if not _is_simple_path(path):
        yield invalid(field, path, _SIMPLE_PATH)
    elif not path.startswith(tuple(f"{parent}." for parent in parents)):
        either = "either " if len(parents) > 1 else ""
        yield invalid(field, path, f"should be a json path under {either}{' or '.join(parents)}")


def _is_simple_path(path: str) -> bool:
    return path.startswith(".") and "\n" not in path


def _check_column(column: Raw, field: str) -> Iterator[Cause]:
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("name"):
        yield required(f"{field}.name")
    if not column.get("type"):
        yield required(f"{field}.type", types)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid(f"{field}.type", column["type"], types)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield invalid(f"{field}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{field}.JSONPath")
    elif not _is_simple_path(column["jsonPath"]):
        yield invalid(f"{field}.JSONPath", column["jsonPath"], _SIMPLE_PATH)


def _check_selectable_fields(fields: Sequence[Raw], schema: Raw, field: str) -> Iterator[Cause]:
    if len(fields) > _MAX_SELECTABLE_FIELDS:
        yield too_many(field, len(fields), _MAX_SELECTABLE_FIELDS)
    seen: set[str] = set()
    for index, one in enumerate(fields):
        path, where = one.get("jsonPath") or "", f"{field}[{index}].jsonPath"
        if not path:
            yield required(where)
        elif why := _selectable_path_fault(path, schema):
            yield invalid(where, path, why)
        elif path in seen:
            yield duplicate(where, path)
        seen.add(path)


def _selectable_path_fault(path: str, schema: Raw) -> str:
    """Why a path names no selectable field; empty if it names one."""
    if not path.startswith((".", "[")):
        found = _FIRST_STEP.match(path)
        return f"is an invalid path: expected [ or . but got: {found[0] if found else path}"
    if "[" in path:
        return "is an invalid path: array notation is not allowed"
    for name in path[1:].split("."):
        schema = object_at(object_at(schema, "properties"), name)
        if not schema:
            return "is an invalid path: does not refer to a valid field"
    if schema.get("type") not in _SELECTABLE_TYPES:
        return (
            "must point to a field of type string, boolean or integer. "
            "Enum string fields and strings with formats are allowed."
        )
    return ""


def check_conversion(conversion: Raw, check_client_config: ClientConfigCheck) -> Iterator[Cause]:
    strategy = conversion.get("strategy")
    webhook = object_at(conversion, "webhook")
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    client_field, versions_field = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    if strategy != "Webhook":
        if client:
            yield forbidden(client_field, "should not be set when strategy is not set to Webhook")
        if versions:
            yield forbidden(versions_field, "should not be set when strategy is not set to Webhook")
        return
    if not client:
        yield required(client_field, "required when strategy is set to Webhook")
    else:
        yield from check_client_config(client, client_field)
    if not versions:
        yield required(versions_field)
    elif not set(versions) & set(_REVIEW_VERSIONS):
        yield invalid(versions_field, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{versions_field}[{index}]", version, "duplicate version")
