"""Discovery documents of the served resources, unaggregated and aggregated."""

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.server.resources import ResourceCatalogue, ServedResource, Subresource

AGGREGATED = "{};g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


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
        self._documents: dict[str, Any] = {}
        self._documents_version = -1

    def _cached_document(self, name: str, build: Callable[[], Any]) -> Any:
        if self._documents_version != self._catalogue.changes:
            self._documents, self._documents_version = {}, self._catalogue.changes
        if name not in self._documents:
            self._documents[name] = build()
        return self._documents[name]

    def api_versions(self, address: str) -> Raw:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}

    def group(self, name: str) -> Raw | None:
        versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in self._catalogue.versions(name)]
        if not name or not versions:
            return None
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def groups(self) -> Raw:
        listed = [self.group(name) for name in self._catalogue.groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

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

    def aggregated_document(self, root: str, version: str) -> tuple[bytes, str]:
        """The document for `/api` or `/apis`, and its ETag."""
        document: tuple[bytes, str] = self._cached_document(
            f"{root} {version}", lambda: self._build_aggregated_document(root, version)
        )
        return document

    def _build_aggregated_document(self, root: str, version: str) -> tuple[bytes, str]:
        groups = [""] if root == "api" else self._catalogue.groups()
        items = [self._aggregated_group(name) for name in groups]
        body = orjson.dumps(
            {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": items,
            }
        )
        return body + b"\n", f'"{hashlib.sha512(body).hexdigest().upper()}"'

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
