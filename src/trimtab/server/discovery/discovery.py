"""Discovery documents of the served resources, unaggregated and aggregated."""

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.request.negotiation import PROTOBUF
from trimtab.server.request.protobuf_responses import encode_discovery
from trimtab.server.resources import ResourceCatalogue, ServedResource, Subresource


class AggregatedForm(NamedTuple):
    """Media type and version of an aggregated discovery document."""

    media_type: str
    version: str

    @property
    def content_type(self) -> str:
        return f"{self.media_type};g=apidiscovery.k8s.io;v={self.version};as=APIGroupDiscoveryList"


def _aggregated_name(root: str, form: AggregatedForm) -> str:
    return f"{root} {form.version} {form.media_type}"


def _storage_hash(served: ServedResource) -> str:
    text = f"{served.group}/{served.kind.version}/{served.kind.name}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _resource_entry(served: ServedResource) -> Raw:
    kind = served.kind
    entry: Raw = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": list(served.verbs),
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "list" in served.verbs:
        entry["storageVersionHash"] = _storage_hash(served)
    return entry


def _subresource_entry(served: ServedResource, name: str, sub: Subresource) -> Raw:
    entry: Raw = {"name": f"{served.resource}/{name}", "singularName": "", "namespaced": served.kind.namespaced}
    if sub.version:
        entry |= {"group": sub.group, "version": sub.version}
    return {**entry, "kind": sub.kind or served.kind.name, "verbs": list(sub.verbs)}


def _aggregated_entry(served: ServedResource) -> Raw:
    kind = served.kind
    group, version = (served.group, served.version) if kind.custom else ("", "")
    entry: Raw = {
        "resource": kind.plural,
        "responseKind": {"group": group, "version": version, "kind": kind.name},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(served.verbs),
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if served.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": {
                    "group": sub.group or group,
                    "version": sub.version or version,
                    "kind": sub.kind or kind.name,
                },
                "verbs": list(sub.verbs),
            }
            for name, sub in served.subresources.items()
        ]
    return entry


class Discovery:
    """The discovery documents, cached until the catalogue changes."""

    def __init__(self, catalogue: ResourceCatalogue) -> None:
        self._catalogue = catalogue
        self._documents: tuple[int, dict[str, Any]] = (-1, {})
        """Documents by name, and the version of the catalogue that they describe; a thread may be building one."""

    def _cached_document(self, name: str, build: Callable[[], Any]) -> Any:
        if self._documents[0] != self._catalogue.changes:
            self._documents = (self._catalogue.changes, {})
        documents = self._documents[1]
        if name not in documents:
            documents[name] = build()
        return documents[name]

    def has_root_document(self, root: str, form: AggregatedForm | None) -> bool:
        """Whether the document for `/api` or `/apis` needs not be built; it may be built in a thread."""
        if form is None and root == "api":
            return True
        version, documents = self._documents
        name = "groups" if form is None else _aggregated_name(root, form)
        return version == self._catalogue.changes and name in documents

    def api_versions(self, address: str) -> Raw:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}

    def group(self, name: str) -> Raw | None:
        versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in self._catalogue.versions(name)]
        if not name or not versions:
            return None
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def groups(self) -> bytes:
        """The document for `/apis`."""
        document: bytes = self._cached_document("groups", self._build_group_list)
        return document

    def _build_group_list(self) -> bytes:
        listed = [self.group(name) for name in self._catalogue.groups()]
        return orjson.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    def resources(self, group: str, version: str) -> Raw | None:
        listed: Raw | None = self._cached_document(
            f"{group}/{version}", lambda: self._build_resource_list(group, version)
        )
        return listed

    def _build_resource_list(self, group: str, version: str) -> Raw | None:
        found = self._catalogue.resources(group, version)
        if not found:
            return None
        entries = []
        for served in found:
            entries.append(_resource_entry(served))
            entries += [_subresource_entry(served, name, sub) for name, sub in served.subresources.items()]
        head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
        return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries}

    def aggregated_document(self, root: str, form: AggregatedForm) -> tuple[bytes, str]:
        """The document for `/api` or `/apis`, and its ETag."""
        document: tuple[bytes, str] = self._cached_document(
            _aggregated_name(root, form), lambda: self._build_aggregated_document(root, form)
        )
        return document

    def _build_aggregated_document(self, root: str, form: AggregatedForm) -> tuple[bytes, str]:
        groups = [""] if root == "api" else self._catalogue.groups()
        document: Raw = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{form.version}",
            "metadata": {},
            "items": [self._aggregated_group(name) for name in groups],
        }
        body = orjson.dumps(document)
        payload = encode_discovery(document) if form.media_type == PROTOBUF else body + b"\n"
        return payload, f'"{hashlib.sha512(body).hexdigest().upper()}"'

    def _aggregated_group(self, name: str) -> Raw:
        versions = [self._aggregated_version(name, version) for version in self._catalogue.versions(name)]
        return {"metadata": {"name": name} if name else {}, "versions": versions}

    def _aggregated_version(self, group: str, version: str) -> Raw:
        remote = self._catalogue.remote.get((group, version))
        entries = [_aggregated_entry(s) for s in self._catalogue.resources(group, version)]
        return {
            "version": version,
            "resources": entries if remote is None else list(remote.resources),
            "freshness": "Current" if remote is None or remote.is_available else "Stale",
        }

    def root_paths(self, extra_paths: Iterable[str]) -> Raw:
        """The index at `/`."""
        found = {"/api", "/api/v1", "/apis", "/apis/", *extra_paths}
        for group in self._catalogue.groups():
            found.add(f"/apis/{group}")
            found |= {f"/apis/{group}/{version}" for version in self._catalogue.versions(group)}
        return {"paths": sorted(found)}
