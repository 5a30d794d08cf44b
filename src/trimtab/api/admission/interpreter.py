"""Defaulting and validation of the resource interpreter's customizations and webhooks."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from trimtab.api.field_errors import duplicate, invalid, not_supported, required
from trimtab.api.names import subdomain_faults
from trimtab.api.paths import indexed_objects, object_at, strings_in, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

OPERATIONS = (
    "retention",
    "replicaResource",
    "componentResource",
    "replicaRevision",
    "statusReflection",
    "statusAggregation",
    "healthInterpretation",
    "dependencyInterpretation",
)
_WEBHOOK_OPERATIONS = (
    "InterpretReplica",
    "InterpretComponent",
    "ReviseReplica",
    "Retain",
    "AggregateStatus",
    "InterpretDependency",
    "InterpretStatus",
    "InterpretHealth",
    "*",
)
_SECONDS = range(1, 31)
_PORTS = range(1, 65536)


def gather_customizations(customization: Raw) -> Raw:
    """Moves operations that are written directly under `spec` to `spec.customizations`."""
    spec = object_at(customization, "spec")
    loose = {name: spec[name] for name in OPERATIONS if name in spec}
    if not loose:
        return customization
    rest = {key: value for key, value in spec.items() if key not in loose}
    rest["customizations"] = {**loose, **object_at(spec, "customizations")}
    return {**customization, "spec": rest}


def check_customization(customization: Raw, old: Raw | None) -> list[Cause]:
    target = object_at(customization, "spec", "target")
    causes = [
        invalid(f"spec.target.{key}", "", "must not be empty")
        for key in ("apiVersion", "kind")
        if target.get(key) == ""
    ]
    if not isinstance(value_at(customization, "spec", "customizations"), dict):
        causes.append(required("spec.customizations"))
    return causes


def fill_webhooks(configuration: Raw) -> Raw:
    hooks = configuration.get("webhooks")
    if not isinstance(hooks, list):
        return configuration
    filled = [_fill_hook(hook) if isinstance(hook, dict) else hook for hook in hooks]
    return configuration if filled == hooks else {**configuration, "webhooks": filled}


def _fill_hook(hook: Raw) -> Raw:
    if hook.get("timeoutSeconds") is None:
        hook = {**hook, "timeoutSeconds": 10}
    service = value_at(hook, "clientConfig", "service")
    if isinstance(service, dict) and service.get("port") is None:
        hook = with_value(hook, 443, "clientConfig", "service", "port")
    return hook


def check_webhooks(configuration: Raw, old: Raw | None) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, hook in indexed_objects(configuration.get("webhooks")):
        name, field = str(hook.get("name", "")), f"webhooks[{i}]"
        causes.extend(_check_hook(hook, name, field))
        if name in seen:
            causes.append(duplicate(f"{field}.name", name))
        seen.add(name)
    return causes


def _check_hook(hook: Raw, name: str, field: str) -> Iterator[Cause]:
    if not name:
        yield required(f"{field}.name")
    elif name.count(".") < 2:
        yield invalid(f"{field}.name", name, "should be a domain with at least three segments separated by dots")
    for fault in subdomain_faults(name) if name else ():
        yield invalid(f"{field}.name", name, fault)
    yield from _check_client(object_at(hook, "clientConfig"), f"{field}.clientConfig")
    seconds = hook.get("timeoutSeconds")
    if isinstance(seconds, int) and seconds not in _SECONDS:
        yield invalid(f"{field}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    versions = strings_in(hook.get("interpreterContextVersions"))
    if not versions:
        yield required(f"{field}.interpreterContextVersions", "must specify one of v1alpha1")
    elif "v1alpha1" not in versions:
        yield invalid(f"{field}.interpreterContextVersions", versions, "must include at least one of v1alpha1")
    for i, rule in indexed_objects(hook.get("rules")):
        yield from _check_rule(rule, f"{field}.rules[{i}]")


def _check_client(client: Raw, field: str) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
    if isinstance(url, str):
        yield from _check_url(url, f"{field}.url")
    if isinstance(service, dict):
        for key in ("namespace", "name"):
            if not service.get(key):
                yield required(f"{field}.service.{key}")
        port = service.get("port")
        if isinstance(port, int) and port not in _PORTS:
            yield invalid(f"{field}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")


def _check_url(url: str, field: str) -> Iterator[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError:
        yield invalid(field, url, "must be a valid URL")
        return
    if parts.scheme != "https":
        yield invalid(field, url, "'https' is the only allowed URL scheme; desired format: https://host[/path]")
    if not parts.hostname:
        yield invalid(field, url, "host must be specified; desired format: https://host[/path]")


def _check_rule(rule: Raw, field: str) -> Iterator[Cause]:
    for operation in strings_in(rule.get("operations")):
        if operation not in _WEBHOOK_OPERATIONS:
            yield not_supported(f"{field}.operations", operation, _WEBHOOK_OPERATIONS)
    for key in ("operations", "apiGroups", "apiVersions", "kinds"):
        listed: Any = rule.get(key)
        if not listed:
            yield required(f"{field}.{key}")
        elif "*" in listed and len(listed) > 1:
            yield invalid(f"{field}.{key}", listed, "if '*' is present, must not specify other items")
