"""Defaults of single kinds: secrets, namespaces, nodes, limits, priorities and role bindings."""

import base64

from trimtab.api.kinds.native.defaults.fill import fill_items, fill_member, set_missing
from trimtab.api.value import Raw


def secret(obj: Raw) -> Raw:
    obj = set_missing(obj, type="Opaque")
    string_data = obj.get("stringData")
    if not string_data:
        return obj
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in string_data.items()}
    without_string_data = {key: value for key, value in obj.items() if key != "stringData"}
    return {**without_string_data, "data": {**obj.get("data", {}), **encoded}}


def namespace(obj: Raw) -> Raw:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name", "")
    labels = metadata.get("labels") or {}
    if not name or labels.get("kubernetes.io/metadata.name") == name:
        return obj
    return {**obj, "metadata": {**metadata, "labels": {**labels, "kubernetes.io/metadata.name": name}}}


def limit_range(obj: Raw) -> Raw:
    def fill(item: Raw) -> Raw:
        if item.get("type") != "Container":
            return item
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        return item | ({"default": limits} if limits else {}) | ({"defaultRequest": requests} if requests else {})

    return fill_member(obj, "spec", lambda spec: fill_items(spec, "limits", fill))


def node(obj: Raw) -> Raw:
    def fill(status: Raw) -> Raw:
        capacity = status.get("capacity")
        return {**status, "allocatable": capacity} if capacity and not status.get("allocatable") else status

    return fill_member(obj, "status", fill)


def priority_class(obj: Raw) -> Raw:
    return set_missing(obj, preemptionPolicy="PreemptLowerPriority")


def _role_ref(ref: Raw) -> Raw:
    return ref if ref.get("apiGroup") else {**ref, "apiGroup": "rbac.authorization.k8s.io"}


def _subject(subject: Raw) -> Raw:
    if subject.get("apiGroup") or subject.get("kind") not in ("User", "Group"):
        return subject
    return {**subject, "apiGroup": "rbac.authorization.k8s.io"}


def role_binding(obj: Raw) -> Raw:
    return fill_items(fill_member(obj, "roleRef", _role_ref), "subjects", _subject)
