"""Validation of ManifestWorks and their sets, as in Open Cluster Management's work webhooks."""

import json
from typing import Any

from trimtab.api.admission.requirements import RequiredAccess, Requirement
from trimtab.api.paths import list_at, object_at, string_at, value_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

GROUP = "work.open-cluster-management.io"
MAX_MANIFEST_BYTES = 500 * 1024
"""The size of all manifests of one work; an agent reads a work as one message."""


def check_manifest_work(work: Raw, old: Raw | None) -> list[Cause]:
    if not list_at(work, "spec", "workload", "manifests"):
        return [_cause("manifests should not be empty", "spec.workload.manifests")]
    causes = _check_manifests(work, "spec")
    subject = object_at(work, "spec", "executor", "subject")
    if subject.get("type") == "ServiceAccount" and not subject.get("serviceAccount"):
        causes.append(_cause("executor service account can not be nil", "spec.executor.subject.serviceAccount"))
    return causes


def check_manifest_work_set(subject: Raw, old: Raw | None) -> list[Cause]:
    return _check_manifests(subject, "spec", "manifestWorkTemplate")


def manifest_work_requirements(work: Raw, old: Raw | None) -> list[Requirement]:
    """Who chooses the account that applies the manifests needs the permission to act as it."""
    executor = value_at(work, "spec", "executor")
    if not executor or (old is not None and value_at(old, "spec", "executor") == executor):
        return []
    account = object_at(executor, "subject", "serviceAccount")
    namespace, name = string_at(account, "namespace"), string_at(account, "name")
    place = string_at(work, "metadata", "namespace")
    message = f"user {{user}} cannot manipulate the Manifestwork with executor {namespace}/{name} in namespace {place}"
    user = f"system:serviceaccount:{namespace}:{name}"
    return [RequiredAccess("execute-as", GROUP, "manifestworks", "", user, place, message)]


def _cause(text: str, field: str) -> Cause:
    return Cause("FieldValueInvalid", text, field)


def _check_manifests(obj: Raw, *path: str) -> list[Cause]:
    """The first fault of the manifests."""
    manifests, field = list_at(obj, *path, "workload", "manifests"), ".".join((*path, "workload.manifests"))
    if not manifests:
        return [_cause("Workload manifests should not be empty", field)]
    size = sum(_encoded_size(manifest) for manifest in manifests)
    if size > MAX_MANIFEST_BYTES:
        return [_cause(f"the size of manifests is {size} bytes which exceeds the {MAX_MANIFEST_BYTES} limit", field)]
    seen = set()
    for i, manifest in enumerate(manifests):
        if fault := _manifest_fault(manifest):
            return [_cause(fault, f"{field}[{i}]")]
        version, kind = string_at(manifest, "apiVersion"), string_at(manifest, "kind")
        namespace, name = string_at(manifest, "metadata", "namespace"), string_at(manifest, "metadata", "name")
        if (version, kind, namespace, name) in seen:
            text = f"duplicate manifest for resource {namespace}/{name} with resource type {version}.{kind}"
            return [_cause(text, f"{field}[{i}]")]
        seen.add((version, kind, namespace, name))
    return []


def _manifest_fault(manifest: Any) -> str:
    if not string_at(manifest, "kind"):
        return "Object 'Kind' is missing in manifest"
    if not string_at(manifest, "metadata", "name"):
        return "name must be set in manifest"
    if string_at(manifest, "metadata", "generateName"):
        return "generateName must not be set in manifest"
    return ""


def _encoded_size(manifest: Any) -> int:
    """The size of a manifest as an agent gets it: its JSON, one byte for the field and some for the length."""
    size = len(json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode())
    return size + 1 + max(1, -(-size.bit_length() // 7))
