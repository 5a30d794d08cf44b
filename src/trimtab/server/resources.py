"""The resources that this server serves: every resource in every version, declared in code or by a CRD."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from msgspec import Struct

from trimtab.api.kind import Kind
from trimtab.api.kinds.native.fields import has_message, message_name
from trimtab.api.kinds.native.metrics import GROUP as METRICS_GROUP
from trimtab.api.value import Raw
from trimtab.store.keys import key_below, namespace_below, resource_prefix

BUILT_IN_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_NO_COLLECTION_DELETE = {"namespaces"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")
ConvertObject = Callable[[Raw], Raw]
ResourceKey = tuple[str, str, str]
"""Group, version and name of a resource."""


class VersionConverter(Protocol):
    """Converts the stored objects of a kind whose versions differ."""

    @property
    def storage_version(self) -> str:
        """The apiVersion in which objects are stored."""

    async def convert(self, values: Sequence[bytes], api_version: str) -> list[bytes]:
        """Stored bytes, each in some version, in this one."""


class Subresource(NamedTuple):
    """A subresource with its own path and verbs."""

    verbs: tuple[str, ...]
    kind: str = ""
    """Kind of the request and response object if it is not the parent's."""
    group: str = ""
    version: str = ""


_STATUS = Subresource(("get", "patch", "update"))
_SCALE = Subresource(("get", "patch", "update"), "Scale", "autoscaling", "v1")
_CONNECT = ("create", "get")
EXTRA_SUBRESOURCES: Mapping[str, Mapping[str, Subresource]] = {
    "pods": {
        "attach": Subresource(_CONNECT, "PodAttachOptions"),
        "binding": Subresource(("create",), "Binding"),
        "ephemeralcontainers": _STATUS,
        "eviction": Subresource(("create",), "Eviction", "policy", "v1"),
        "exec": Subresource(_CONNECT, "PodExecOptions"),
        "log": Subresource(("get",)),
        "portforward": Subresource(_CONNECT, "PodPortForwardOptions"),
        "proxy": Subresource(("create", "delete", "get", "patch", "update"), "PodProxyOptions"),
        "resize": _STATUS,
    },
    "nodes": {"proxy": Subresource(("create", "delete", "get", "patch", "update"), "NodeProxyOptions")},
    "services": {"proxy": Subresource(("create", "delete", "get", "patch", "update"), "ServiceProxyOptions")},
    "namespaces": {"finalize": Subresource(("update",))},
    "serviceaccounts": {"token": Subresource(("create",), "TokenRequest", "authentication.k8s.io", "v1")},
    "certificatesigningrequests.certificates.k8s.io": {"approval": _STATUS},
    "clusters.cluster.karmada.io": {
        "proxy": Subresource(("create", "delete", "get", "patch", "update"), "ClusterProxyOptions"),
    },
}
"""Subresources beyond status and scale."""


class ServedResource:
    """One resource in one version: its names, its key prefix in the store, and the start of its wire encoding."""

    def __init__(
        self,
        kind: Kind,
        version: str,
        *,
        schema: Callable[[], Raw],
        stored_as: str = "",
        selectable: Iterable[str] = (),
        from_stored: ConvertObject | None = None,
        to_stored: ConvertObject | None = None,
        deprecation_warning: str = "",
        converter: VersionConverter | None = None,
        progress_columns: bool = False,
    ) -> None:
        self.kind = kind
        self.columns = kind.columns_in(progress=progress_columns)
        self.version = version
        self.group = kind.group
        self.resource = kind.plural
        self.selectable = tuple(selectable)
        self.from_stored = from_stored
        """Converts from the stored version to this one, if they differ."""
        self.to_stored = to_stored
        self.deprecation_warning = deprecation_warning
        """What every response of this version warns about; empty unless the version is deprecated."""
        self.converter = converter
        """Converts objects between versions by a webhook; `from_stored` then gets them in this version."""
        self._schema = schema
        storage = stored_as or kind.id
        plural, _, group = storage.partition(".")
        self.prefix = resource_prefix(group, plural)
        self.storage = storage

    @cached_property
    def schema(self) -> Raw:
        return self._schema()

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def message(self) -> str:
        """The protobuf message of a native kind; empty for other kinds."""
        name = message_name(self.api_version, self.kind.name)
        return name if not self.kind.custom and has_message(name) else ""

    @cached_property
    def json_only(self) -> bool:
        """Whether there is no protobuf form: custom resources and kinds of ours have none, and metrics need none."""
        return not self.message or self.kind.group == METRICS_GROUP

    @cached_property
    def object_head(self) -> bytes:
        """The start of an object on the wire, up to the value of its resourceVersion."""
        name, version = self.kind.name, self.api_version
        type_fields = (
            f'"apiVersion":"{version}","kind":"{name}"'
            if self.kind.custom
            else f'"kind":"{name}","apiVersion":"{version}"'
        )
        return f'{{{type_fields},"metadata":{{"resourceVersion":"'.encode()

    @cached_property
    def item_head(self) -> bytes:
        """The same for a list item: items of built-in kinds do not repeat kind and apiVersion."""
        return self.object_head if self.kind.custom else b'{"metadata":{"resourceVersion":"'

    @cached_property
    def verbs(self) -> tuple[str, ...]:
        if self.kind.verbs:
            return self.kind.verbs
        if self.kind.custom:
            return CUSTOM_VERBS
        if self.kind.id in _NO_COLLECTION_DELETE:
            return tuple(verb for verb in BUILT_IN_VERBS if verb != "deletecollection")
        return BUILT_IN_VERBS

    @cached_property
    def subresources(self) -> dict[str, Subresource]:
        found = dict(EXTRA_SUBRESOURCES.get(self.kind.id, {}))
        if self.kind.scale:
            found["scale"] = _SCALE
        if self.kind.status:
            found["status"] = _STATUS
        return dict(sorted(found.items()))

    def key(self, namespace: str, name: str) -> str:
        return key_below(self.prefix, name, namespace if self.kind.namespaced else "")

    def collection_prefix(self, namespace: str) -> str:
        """The key prefix of a collection: one namespace, or all."""
        return namespace_below(self.prefix, namespace)


class ObjectPath(Struct, frozen=True):
    """One object, or its collection when the name is empty."""

    served: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        return self.served.key(self.namespace, self.name)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions in the order of Kubernetes: GA by number descending, then beta, then alpha."""
    match = _VERSION.match(version)
    if not match:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), "")


class RemoteVersion(NamedTuple):
    """A version of a group that another API server serves, as its documents describe it."""

    group_priority: int = 0
    resources: tuple[Raw, ...] = ()
    """Entries of the aggregated discovery document, those of the last time that the server answered."""
    is_available: bool = False
    schema_hash: str = ""
    """Changes with its OpenAPI v3 document; empty when it has none."""
    paths: Mapping[str, Raw] = {}
    definitions: Mapping[str, Raw] = {}
    """Its part of the OpenAPI v2 document."""


class _CatalogueIndex:
    """The resources of a catalogue at one time, by what requests ask for."""

    def __init__(
        self, served: Mapping[ResourceKey, ServedResource], remote: Mapping[tuple[str, str], RemoteVersion]
    ) -> None:
        self._served = served
        self._remote = remote

    @cached_property
    def groups(self) -> list[str]:
        custom: dict[str, bool] = {}
        for one in self._served.values():
            if one.group:
                custom[one.group] = custom.get(one.group, True) and one.kind.custom
        further: dict[str, int] = {}
        for (group, _), version in self._remote.items():
            if group not in custom:
                further[group] = max(further.get(group, 0), version.group_priority)
        return [
            *sorted(custom, key=lambda group: (custom[group], group)),
            *sorted(further, key=lambda group: (-further[group], group)),
        ]

    @cached_property
    def versions(self) -> Mapping[str, list[str]]:
        found: dict[str, set[str]] = {}
        for group, version, *_ in (*self._served, *self._remote):
            found.setdefault(group, set()).add(version)
        return {group: sorted(versions, key=version_rank) for group, versions in found.items()}

    @cached_property
    def resources(self) -> Mapping[tuple[str, str], list[ServedResource]]:
        found: dict[tuple[str, str], list[ServedResource]] = {}
        for served in sorted(self._served.values(), key=lambda served: served.resource):
            found.setdefault((served.group, served.version), []).append(served)
        return found

    @cached_property
    def kinds(self) -> Mapping[tuple[str, str, str], ServedResource]:
        """The first resource of each group, version and kind."""
        return {(s.group, s.version, s.kind.name): s for s in reversed(tuple(self._served.values()))}

    @cached_property
    def kinds_in_any_version(self) -> Mapping[tuple[str, str], ServedResource]:
        return {(s.group, s.kind.name): s for s in reversed(tuple(self._served.values()))}

    @cached_property
    def preferred(self) -> Mapping[tuple[str, str], ServedResource]:
        best: dict[tuple[str, str], ServedResource] = {}
        for (group, version, resource), served in self._served.items():
            known = best.get((group, resource))
            if known is None or version_rank(version) < version_rank(known.version):
                best[group, resource] = served
        return best


class ResourceCatalogue:
    """The served resources by group, version and name, and the versions of groups that other servers serve."""

    def __init__(self) -> None:
        self.remote: Mapping[tuple[str, str], RemoteVersion] = {}
        """By group and version; what this server serves itself is not among them."""
        self._served: dict[ResourceKey, ServedResource] = {}
        """Replaced as a whole on every change, because a thread may be reading it."""
        self.changes = 0
        """Incremented on every change, so that discovery documents can be cached."""
        self._index = _CatalogueIndex(self._served, self.remote)

    def add(self, *served: ServedResource) -> None:
        self._replace({**self._served, **{(one.group, one.version, one.resource): one for one in served}})

    def remove(self, group: str, resource: str) -> None:
        kept = {key: served for key, served in self._served.items() if (key[0], key[2]) != (group, resource)}
        if len(kept) != len(self._served):
            self._replace(kept)

    def replace_remote(self, remote: Mapping[tuple[str, str], RemoteVersion]) -> None:
        if remote != self.remote:
            self.remote = remote
            self._replace(self._served)

    def serves_version(self, group: str, version: str) -> bool:
        """Whether this server itself serves a version of a group."""
        return (group, version) in self._index.resources

    def _replace(self, served: dict[ResourceKey, ServedResource]) -> None:
        self._served, self._index = served, _CatalogueIndex(served, self.remote)
        self.changes += 1

    def find(self, group: str, version: str, resource: str) -> ServedResource | None:
        return self._served.get((group, version, resource))

    def find_kind(self, api_version: str, kind: str) -> ServedResource | None:
        group, _, version = api_version.rpartition("/")
        return self._index.kinds.get((group, version, kind))

    def find_kind_in_any_version(self, group: str, kind: str) -> ServedResource | None:
        return self._index.kinds_in_any_version.get((group, kind))

    def find_preferred(self, group: str, resource: str) -> ServedResource | None:
        return self._index.preferred.get((group, resource))

    def preferred_resources(self) -> Mapping[tuple[str, str], ServedResource]:
        """The preferred version of each resource, by group and name; the same mapping until something changes."""
        return self._index.preferred

    def groups(self) -> Sequence[str]:
        """All named groups: built-in ones, custom ones, then those of other servers by their priority."""
        return self._index.groups

    def versions(self, group: str) -> Sequence[str]:
        """The versions of a group, of this server and of others, the preferred one first."""
        return self._index.versions.get(group, ())

    def resources(self, group: str, version: str) -> Sequence[ServedResource]:
        return self._index.resources.get((group, version), ())

    def stored_resources(self) -> list[ServedResource]:
        """Each stored resource once, in its preferred version."""
        best: dict[str, ServedResource] = {}
        for served in self._served.values():
            if "list" not in served.verbs or served.storage != served.kind.id:
                continue
            best_so_far = best.get(served.storage)
            if best_so_far is None or version_rank(served.version) < version_rank(best_so_far.version):
                best[served.storage] = served
        return [best[name] for name in sorted(best)]

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(tuple(self._served.values()))
