"""Reads objects from files as an API server would: strict decoding, defaults, validation with file and field."""

from collections.abc import Iterable
from functools import cache

import msgspec

from trimtab.api import kinds as kind_modules
from trimtab.api.field_errors import invalid
from trimtab.api.kind import Kind, find_kind
from trimtab.api.kinds.native import codec
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.dryrun.documents import Document, read_documents
from trimtab.dryrun.manifest import Manifest, Manifests, display_name
from trimtab.errors import Cause, InputError
from trimtab.registry import discover
from trimtab.server.apiserver import served_resources_of
from trimtab.server.registry.cel_rules import rule_evaluator
from trimtab.server.registry.metadata import metadata_causes
from trimtab.server.registry.object_schema import ObjectSchema
from trimtab.server.resources import ServedResource

KNOWN_GROUPS = ("karmada.io", "open-cluster-management.io", "trimtab.dev")


def read_manifests(files: Iterable[str]) -> Manifests:
    """All objects of these files; raises InputError with one line for each error in them."""
    return complete_documents(read_documents(files))


def complete_documents(documents: Iterable[Document]) -> Manifests:
    """The objects of these documents with all defaults set; raises InputError with one line for each error."""
    discover(kind_modules)
    fitter = _schema()
    items: dict[tuple[str, str, str, str], Manifest] = {}
    faults: list[str] = []
    warnings: list[str] = []
    for document in documents:
        errors: list[str] = []
        item = _read_manifest(document, fitter, errors, warnings)
        faults += [f"{document.location}: {display_name(document.obj)}: {fault}" for fault in errors]
        if item is None:
            continue
        metadata = item.raw["metadata"]
        identity = (item.raw["apiVersion"], item.raw["kind"], metadata.get("namespace", ""), metadata["name"])
        if identity in items:
            faults.append(f"{document.location}: {item.name} is already in {items[identity].document.location}")
        items[identity] = item
    if faults:
        raise InputError("\n  ".join(["the files have errors:", *faults]))
    return Manifests(tuple(items.values()), tuple(warnings))


def faults_of(raw: Raw) -> list[str]:
    """Why a server would not store an object of a known kind; it needs all defaults."""
    kind = find_kind(raw["apiVersion"], raw["kind"])
    assert kind is not None
    causes: list[Cause] = list(_schema().validate(_served_resource(kind, raw["apiVersion"]), raw, None))
    for check in kind.admission_validators:
        causes += check(raw, None)
    return [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]


@cache
def _schema() -> ObjectSchema:
    return ObjectSchema(rule_evaluator())


@cache
def _served_resource(kind: Kind, api_version: str) -> ServedResource:
    return next(served for served in served_resources_of(kind) if served.api_version == api_version)


def _read_manifest(document: Document, fitter: ObjectSchema, faults: list[str], warnings: list[str]) -> Manifest | None:
    raw = document.obj
    kind = find_kind(raw["apiVersion"], raw["kind"])
    if kind is None:
        if any(raw["apiVersion"].partition("/")[0].endswith(group) for group in KNOWN_GROUPS):
            faults.append(f"apiVersion {raw['apiVersion']} has no kind {raw['kind']}")
            return None
        return Manifest(raw, document, None)
    served = _served_resource(kind, raw["apiVersion"])
    if kind.namespaced:
        raw = _with_default_namespace(raw)
    try:
        read = fitter.read(served, raw)
    except codec.NativeDecodeError as fault:
        faults.append(str(fault))
        return None
    # A cluster may be newer than Trimtab: unknown fields of built-in kinds are only warnings.
    (faults if kind.custom else warnings).extend(
        read.problems
        if kind.custom
        else [f"{document.location}: {display_name(raw)}: {problem}" for problem in read.problems]
    )
    return _complete_and_validate(
        Manifest({**read.obj, "apiVersion": raw["apiVersion"], "kind": kind.name}, document, None),
        served,
        fitter,
        faults,
    )


def _with_default_namespace(raw: Raw) -> Raw:
    """An object without a namespace is in `default`, as in kubectl."""
    metadata = raw["metadata"]
    return raw if metadata.get("namespace") else {**raw, "metadata": {**metadata, "namespace": "default"}}


def _complete_and_validate(
    item: Manifest, served: ServedResource, fitter: ObjectSchema, faults: list[str]
) -> Manifest | None:
    raw, kind = fitter.apply_defaults(served, item.raw), served.kind
    for fill in kind.admission_defaults:
        raw = fill(raw)
    metadata: Raw = raw["metadata"]
    causes = metadata_causes(metadata, kind.id, custom=kind.custom)
    namespace = metadata.get("namespace")
    causes += [
        invalid("metadata.namespace", namespace, fault) for fault in (label_faults(namespace) if namespace else ())
    ]
    causes += fitter.validate(served, raw, None)
    for check in kind.admission_validators:
        causes += check(raw, None)
    if causes:
        faults += [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
        return None
    raw = kind.convert(raw, kind.version)
    try:
        return item._replace(raw=raw, typed=kind.decode(raw))
    except msgspec.ValidationError as fault:
        faults.append(str(fault))
        return None
