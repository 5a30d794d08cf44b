"""Defaulting and validation of Clusters, as in Karmada's aggregated API server."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from trimtab.api import quantity
from trimtab.api.field_errors import duplicate, invalid, not_supported, required, too_long, too_many
from trimtab.api.names import label_faults, label_value_faults, qualified_name_faults
from trimtab.api.paths import indexed_objects, int_or_zero, map_objects_at, object_at, strings_in, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_NAME_LENGTH = 48
MAX_TAINTS = 64
MAX_MODELS = 64
MAX_RANGES = 16
MAX_RESOURCE_NAME_LENGTH = 317
"""Limits that upstream does not have: CEL rules that compare all pairs need a bound on the number of items."""
_PROXY_SCHEMES = ("http", "https", "socks5")
_MAX_INT64 = (1 << 63) - 1
_GRADES = (
    (0, ("0", "1"), ("0", "4Gi")),
    (1, ("1", "2"), ("4Gi", "16Gi")),
    (2, ("2", "4"), ("16Gi", "32Gi")),
    (3, ("4", "8"), ("32Gi", "64Gi")),
    (4, ("8", "16"), ("64Gi", "128Gi")),
    (5, ("16", "32"), ("128Gi", "256Gi")),
    (6, ("32", "64"), ("256Gi", "512Gi")),
    (7, ("64", "128"), ("512Gi", "1Ti")),
    (8, ("128", str(_MAX_INT64)), ("1Ti", str(_MAX_INT64))),
)
DEFAULT_MODELS: list[Raw] = [
    {
        "grade": grade,
        "ranges": [
            {"name": "cpu", "min": cpu[0], "max": cpu[1]},
            {"name": "memory", "min": memory[0], "max": memory[1]},
        ],
    }
    for grade, cpu, memory in _GRADES
]


def fill_cluster(cluster: Raw) -> Raw:
    """Moves the deprecated `zone` to `zones`; sets or completes the resource models."""
    zone = value_at(cluster, "spec", "zone")
    if zone and not value_at(cluster, "spec", "zones"):
        spec = {key: value for key, value in object_at(cluster, "spec").items() if key != "zone"}
        cluster = {**cluster, "spec": {**spec, "zones": [zone]}}
    models = value_at(cluster, "spec", "resourceModels")
    standard = _standardize_models(models) if models else DEFAULT_MODELS
    return cluster if models == standard else with_value(cluster, standard, "spec", "resourceModels")


def _standardize_models(models: Any) -> Any:
    """The models sorted by grade, starting at 0 and ending at MaxInt64."""
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        return models
    ordered = sorted(models, key=lambda model: int_or_zero(model.get("grade")))
    ordered[0] = map_objects_at(ordered[0], ("ranges",), lambda bounds: {**bounds, "min": "0"})
    ordered[-1] = map_objects_at(ordered[-1], ("ranges",), lambda bounds: {**bounds, "max": str(_MAX_INT64)})
    return ordered


def check_cluster(cluster: Raw, old: Raw | None) -> list[Cause]:
    if old is not None and cluster.get("spec") == old.get("spec"):
        return []  # nearly every write of a cluster is one of its status
    name = str(value_at(cluster, "metadata", "name") or "")
    return [*_check_name(name), *_check_spec(object_at(cluster, "spec"))]


def _check_name(name: str) -> Iterator[Cause]:
    if len(name) > _MAX_NAME_LENGTH:
        yield invalid("metadata.name", name, f"must be no more than {_MAX_NAME_LENGTH} characters")
    for fault in label_faults(name):
        yield invalid("metadata.name", name, fault)


def _check_spec(spec: Raw) -> Iterator[Cause]:
    mode = spec.get("syncMode", "")
    if mode not in ("Push", "Pull"):
        yield not_supported("spec.syncMode", mode, ("Push", "Pull"))
    if spec.get("apiEndpoint"):
        yield from _check_endpoint(spec["apiEndpoint"])
    for name in ("secretRef", "impersonatorSecretRef"):
        if isinstance(spec.get(name), dict):
            for key in ("namespace", "name"):
                if not spec[name].get(key):
                    yield required(f"spec.{name}.{key}")
    if spec.get("proxyURL"):
        yield from _check_proxy(spec["proxyURL"])
    yield from _check_location(spec)
    yield from _check_taints(spec.get("taints"))
    if spec.get("resourceModels"):
        yield from _check_models(spec["resourceModels"])


def _split_url(url: Any) -> Any:
    try:
        return urlsplit(url)
    except (ValueError, AttributeError):
        return None


def _check_endpoint(url: Any) -> Iterator[Cause]:
    parts = _split_url(url)
    if parts is None or not parts.scheme:
        yield invalid("spec.apiEndpoint", url, "must be a valid URL")
        return
    if not parts.netloc.rpartition("@")[2]:
        yield invalid("spec.apiEndpoint", url, "host must be specified")
    for present, what in (
        (parts.username, "user information"),
        (parts.fragment, "fragments"),
        (parts.query, "query parameters"),
    ):
        if present:
            yield invalid("spec.apiEndpoint", url, f"{what} are not permitted in the URL")


def _check_proxy(url: Any) -> Iterator[Cause]:
    parts = _split_url(url)
    if parts is None or parts.scheme not in _PROXY_SCHEMES:
        yield invalid("spec.proxyURL", url, f"unsupported scheme, must be one of: {', '.join(_PROXY_SCHEMES)}")


def _check_location(spec: Raw) -> Iterator[Cause]:
    for name in ("provider", "region", "zone"):
        for fault in label_value_faults(str(spec.get(name) or "")):
            yield invalid(f"spec.{name}", spec[name], fault)
    for i, zone in enumerate(strings_in(spec.get("zones"))):
        for fault in label_value_faults(zone):
            yield invalid(f"spec.zones[{i}]", zone, fault)
    if spec.get("zone") and spec.get("zones"):
        yield invalid("spec.zones", spec["zones"], "zone and zones can not co-exist")


def _check_taints(taints: Any) -> Iterator[Cause]:
    if isinstance(taints, list) and len(taints) > MAX_TAINTS:
        yield too_many("spec.taints", len(taints), MAX_TAINTS)
    seen: set[tuple[str, str]] = set()
    for i, taint in indexed_objects(taints):
        field = f"spec.taints[{i}]"
        key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
        for fault in qualified_name_faults(key):
            yield invalid(f"{field}.key", key, fault)
        for fault in label_value_faults(value):
            yield invalid(f"{field}.value", value, fault)
        if effect not in ("NoSchedule", "NoExecute"):
            yield not_supported(f"{field}.effect", effect, ("NoSchedule", "NoExecute"))
        if (key, effect) in seen:
            yield duplicate(field, taint)
        seen.add((key, effect))


def _check_models(models: Any) -> Iterator[Cause]:
    if len(models) > MAX_MODELS:
        yield too_many("spec.resourceModels", len(models), MAX_MODELS)
    previous: Raw | None = None
    for i, model in indexed_objects(models):
        yield from _check_model_size(model, f"spec.resourceModels[{i}].ranges")
        yield from _check_model(model, previous, f"spec.resourceModels[{i}]")
        previous = model
    if previous is not None:
        for i, bounds in indexed_objects(previous.get("ranges")):
            if _parse_bound(bounds, "max") != _MAX_INT64:
                yield invalid(
                    f"spec.resourceModels.ranges[{i}].max", bounds.get("max"), "the last max must be MaxInt64"
                )


def _check_model_size(model: Raw, field: str) -> Iterator[Cause]:
    ranges = list(indexed_objects(model.get("ranges")))
    if len(ranges) > MAX_RANGES:
        yield too_many(field, len(ranges), MAX_RANGES)
    for i, bounds in ranges:
        if len(str(bounds.get("name") or "")) > MAX_RESOURCE_NAME_LENGTH:
            yield too_long(f"{field}[{i}].name", MAX_RESOURCE_NAME_LENGTH)


def _parse_bound(bounds: Raw, name: str) -> int | None:
    try:
        return quantity.int_value(bounds.get(name, "0"))
    except quantity.InvalidQuantity:
        return None


def _check_model(model: Raw, previous: Raw | None, field: str) -> Iterator[Cause]:
    ranges = [bounds for _, bounds in indexed_objects(model.get("ranges"))]
    if previous is None:
        for i, bounds in enumerate(ranges):
            if _parse_bound(bounds, "min") != 0:
                yield invalid(f"{field}.ranges[{i}].min", bounds.get("min"), "the first min must be 0")
    for i, bounds in enumerate(ranges):
        least, most = _parse_bound(bounds, "min"), _parse_bound(bounds, "max")
        if least is None or most is None or most <= least:
            yield invalid(f"{field}.ranges[{i}].max", bounds.get("max"), "max must be greater than min")
    if previous is None:
        return
    before = [bounds for _, bounds in indexed_objects(previous.get("ranges"))]
    if model.get("grade") == previous.get("grade"):
        yield invalid(f"{field}.grade", model.get("grade"), "the grade must differ from the previous one")
    if [b.get("name") for b in before] != [b.get("name") for b in ranges]:
        yield invalid(
            f"{field}.ranges", model.get("ranges"), "every model must have the same resources in the same order"
        )
        return
    for i, (bounds, earlier) in enumerate(zip(ranges, before, strict=True)):
        if _parse_bound(bounds, "min") != _parse_bound(earlier, "max"):
            yield invalid(f"{field}.ranges[{i}].min", bounds.get("min"), "min must be the max of the previous model")
