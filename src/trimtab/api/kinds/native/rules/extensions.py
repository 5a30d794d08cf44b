"""What kube-apiserver rejects in CustomResourceDefinitions (except their schemas) and webhook configurations."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from trimtab.api.field_errors import duplicate, invalid, not_supported, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.kinds.native.rules.definition_versions import check_conversion, check_versions_content
from trimtab.api.kinds.native.rules.match_rules import check_match_policy, check_rule
from trimtab.api.names import subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_PORT = 65535
_APPROVAL = "api-approved.kubernetes.io"
_DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_DNS_1035_LABEL_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def check_custom_resource_definition(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec, metadata = object_at(new, "spec"), object_at(new, "metadata")
    names, group = object_at(spec, "names"), spec.get("group", "")
    found: list[Cause] = []
    expected_name = f"{names.get('plural', '')}.{group}"
    if old is None and metadata.get("name") != expected_name:
        found.append(invalid("metadata.name", metadata.get("name", ""), 'must be spec.names.plural+"."+spec.group'))
    found += _check_group(group, metadata)
    if not spec.get("scope"):
        found.append(required("spec.scope"))
    else:
        found += common.check_one_of(spec["scope"], ("Cluster", "Namespaced"), "spec.scope")
    found += _check_versions(spec.get("versions") or [])
    found += _check_names(names)
    if old is None or object_at(old, "spec") != spec:  # what was stored before a check existed still gets its status
        found += check_versions_content(spec)
        found += check_conversion(object_at(spec, "conversion") or {"strategy": "None"}, _check_client_config)
    if old is not None:
        found += _check_immutable_fields(spec, object_at(old, "spec"))
    return found


def _check_immutable_fields(spec: Raw, old_spec: Raw) -> Iterator[Cause]:
    yield from common.check_unchanged(spec.get("group"), old_spec.get("group"), "spec.group")
    yield from common.check_unchanged(spec.get("scope"), old_spec.get("scope"), "spec.scope")
    for name in ("kind", "plural"):
        new_name, old_name = object_at(spec, "names").get(name), object_at(old_spec, "names").get(name)
        yield from common.check_unchanged(new_name, old_name, f"spec.names.{name}")


def _check_group(group: str, metadata: Raw) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
        return
    for fault in subdomain_faults(group):
        yield invalid("spec.group", group, fault)
    if "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")
    if protected and not (metadata.get("annotations") or {}).get(_APPROVAL):
        text = (
            f'protected groups must have approval annotation "{_APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(f"metadata.annotations[{_APPROVAL}]", text)


def _check_versions(versions: Sequence[Raw]) -> Iterator[Cause]:
    for index, version in enumerate(versions):
        field, name = f"spec.versions[{index}]", version.get("name", "")
        if not _DNS_1035_LABEL.match(name):
            yield invalid(f"{field}.name", name, _DNS_1035_LABEL_TEXT)
            if index == 0:
                yield invalid("spec.version", name, _DNS_1035_LABEL_TEXT)
        if any(other.get("name") == name for other in versions[:index]):
            yield duplicate(f"{field}.name", name)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    if not any(version.get("storage") for version in versions):
        yield invalid("status.storedVersions", None, "must have at least one stored version")


def _check_names(names: Raw) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name, "")
        lowered = value if name in ("plural", "singular") else value.lower()
        if not value:
            yield required(f"spec.names.{name}")
        elif not _DNS_1035_LABEL.match(lowered):
            yield invalid(
                f"spec.names.{name}",
                value,
                f"may have mixed case, but should otherwise match: {_DNS_1035_LABEL_TEXT}"
                if name in ("kind", "listKind")
                else _DNS_1035_LABEL_TEXT,
            )
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for part in ("shortNames", "categories"):
        for index, value in enumerate(names.get(part) or ()):
            if not _DNS_1035_LABEL.match(value):
                yield invalid(f"spec.names.{part}[{index}]", value, _DNS_1035_LABEL_TEXT)


def check_webhooks(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(new.get("webhooks") or ()):
        field = f"webhooks[{index}]"
        found += _check_webhook(webhook, field)
        name = webhook.get("name", "")
        if name in seen:
            found.append(duplicate(f"{field}.name", name))
        seen.add(name)
    return found


def _check_webhook(webhook: Raw, field: str) -> Iterator[Cause]:
    name = webhook.get("name", "")
    if not name:
        yield required(f"{field}.name")
    for fault in subdomain_faults(name) if name else ():
        yield invalid(f"{field}.name", name, fault)
    if name and name.count(".") < 2:
        yield invalid(f"{field}.name", name, "should be a domain with at least three segments separated by dots")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from check_rule(rule, f"{field}.rules[{index}]")
    yield from check_match_policy(webhook.get("matchPolicy"), f"{field}.matchPolicy")
    if webhook.get("failurePolicy") not in ("Fail", "Ignore"):
        yield not_supported(f"{field}.failurePolicy", webhook.get("failurePolicy", ""), ["Fail", "Ignore"])
    effects = webhook.get("sideEffects")
    if not effects:
        yield required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{field}.sideEffects", effects, ["None", "NoneOnDryRun"])
    yield from _check_review_versions(webhook.get("admissionReviewVersions") or [], f"{field}.admissionReviewVersions")
    timeout = webhook.get("timeoutSeconds", 10)
    if not 1 <= timeout <= 30:
        yield invalid(f"{field}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds")
    for selector in ("namespaceSelector", "objectSelector"):
        yield from common.check_selector(webhook.get(selector), f"{field}.{selector}")
    yield from _check_client_config(object_at(webhook, "clientConfig"), f"{field}.clientConfig")


def _check_review_versions(versions: Sequence[str], field: str) -> Iterator[Cause]:
    if not versions:
        yield required(field, "must specify one of v1, v1beta1")
    elif not set(versions) & {"v1", "v1beta1"}:
        yield invalid(field, list(versions), "must include at least one of v1, v1beta1")
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{field}[{index}]", version, "duplicate version")


def _check_client_config(client: Raw, field: str) -> Iterator[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(field, "exactly one of url or service is required")
        return
    if url is not None:
        yield from _check_url(url, f"{field}.url")
    if service is not None:
        for name in ("name", "namespace"):
            if not service.get(name):
                yield required(f"{field}.service.{name}", f"service {name} is required")
        path = service.get("path")
        if path and not path.startswith("/"):
            yield invalid(f"{field}.service.path", path, "must start with a '/'")
        elif path:
            for index, segment in enumerate(path[1:].rstrip("/").split("/") if path != "/" else ()):
                if not segment:
                    yield invalid(f"{field}.service.path", path, f"segment[{index}] may not be empty")
        port = service.get("port")
        if port is not None and not 1 <= port <= _MAX_PORT:
            yield invalid(f"{field}.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")


def _check_url(url: str, field: str) -> Iterator[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield invalid(field, url, f"url must be a valid URL: {error}; desired format: https://host[/path]")
        return
    if parts.scheme != "https":
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid(field, url.partition("://")[0], text)
    elif not parts.netloc:
        yield invalid(field, "", "host must be specified; desired format: https://host[/path]")
    for value, what in (
        (parts.netloc.rpartition("@")[0], "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            yield invalid(field, value, f"{what} not permitted in the URL")
