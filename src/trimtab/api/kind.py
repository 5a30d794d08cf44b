"""One declaration per kind: its names, scope, columns and subresources, beside the type that holds it.

Discovery, OpenAPI, CRD YAML, Table output, defaulting and validation derive from a `Kind`; adding a kind is one module
in `api.kinds` whose classes carry `@kind(...)`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from trimtab.api.value import Key, Object, Raw
from trimtab.errors import Cause
from trimtab.registry import Registry

T = TypeVar("T", bound=Object)

Default = Callable[[Raw], Raw]
"""Fills in what the author left out; returns the object (the same one when nothing was missing)."""

Validate = Callable[[Raw, Raw | None], Sequence[Cause]]
"""Complaints about a new object, given the old one on update (None on create)."""


class Column(NamedTuple):
    """A printer column: `path` is a JSON path for custom resources; built-ins compute their cells in the server."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    text: str = ""


class Scale(NamedTuple):
    """Where the scale subresource finds its numbers."""

    spec_path: str = ".spec.replicas"
    status_path: str = ".status.replicas"
    selector_path: str = ""


class OtherVersion(NamedTuple):
    """An older or newer form of a kind that is served beside the stored one."""

    shape: type[Object] | None = None
    """What objects of this version look like; None means just as in the stored version."""
    to_stored: Callable[[Raw], Raw] | None = None
    """Turns an object of this version into the stored one (apiVersion aside); None means nothing changes."""
    from_stored: Callable[[Raw], Raw] | None = None
    alike: bool = False
    """The stored version reads what this one writes, so a mere change of apiVersion loses nothing."""


class Kind:
    """Everything the house knows about one kind in one group."""

    def __init__(
        self,
        type_: type[Object],
        *,
        group: str,
        version: str,
        name: str,
        plural: str,
        singular: str = "",
        short: Sequence[str] = (),
        categories: Sequence[str] = (),
        namespaced: bool = True,
        status: bool = False,
        scale: Scale | None = None,
        columns: Sequence[Column] = (),
        custom: bool = True,
        other_versions: Mapping[str, OtherVersion] | None = None,
        text: str = "",
        spelling: Sequence[Default] = (),
        defaults: Sequence[Default] = (),
        validators: Sequence[Validate] = (),
        admission_defaults: Sequence[Default] = (),
        admission_validators: Sequence[Validate] = (),
        verbs: Sequence[str] = (),
    ) -> None:
        self.type = type_
        self.group = group
        self.version = version
        self.name = name
        self.plural = plural
        self.singular = singular or name.lower()
        self.short = tuple(short)
        self.categories = tuple(categories)
        self.namespaced = namespaced
        self.status = status
        self.scale = scale
        self.columns = tuple(columns)
        self.custom = custom
        """True: behaves as a custom resource born of a CRD; False: behaves as a Kubernetes built-in."""
        self.other_versions = dict(other_versions or {})
        self.text = text
        self.spelling = tuple(spelling)
        """Puts older spellings right; done on each reading, since a kube-apiserver stores them as they came."""
        self.defaults = (*self.spelling, *defaults)
        """Defaulting that belongs to the kind itself, beyond schema defaults (every server does it)."""
        self.validators = tuple(validators)
        """Validation that belongs to the kind itself (every server does it)."""
        self.admission_defaults = tuple(admission_defaults)
        """What an upstream admission webhook would fill in (`trimtab up`, not `trimtab apiserver`)."""
        self.admission_validators = tuple(admission_validators)
        """What an upstream admission webhook would refuse (`trimtab up`, not `trimtab apiserver`)."""
        self.verbs = tuple(verbs)
        """Restricts the served verbs when given (create-only kinds such as SelfSubjectAccessReview)."""

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def id(self) -> str:
        """The name in the registry: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def type_in(self, version: str) -> type[Object]:
        """The type of an object in one of the served versions."""
        other = self.other_versions.get(version, OtherVersion())
        return other.shape or self.type

    def convert(self, raw: Raw, version: str) -> Raw:
        """The same object in another served version; the very same when it is in that version already."""
        wanted = f"{self.group}/{version}" if self.group else version
        present = str(raw.get("apiVersion", self.api_version))
        if present == wanted:
            return raw
        other = self.other_versions.get(present.rpartition("/")[2], OtherVersion())
        stored = other.to_stored(raw) if other.to_stored else raw
        other = self.other_versions.get(version, OtherVersion())
        converted = other.from_stored(stored) if other.from_stored else stored
        return {**converted, "apiVersion": wanted}

    def decode(self, raw: Raw | bytes) -> Object:
        """The typed value of an object as it is on the wire; fields we do not model are ignored."""
        if self.spelling:
            raw = msgspec.json.decode(raw, type=dict) if isinstance(raw, bytes) else raw
            for put_right in self.spelling:
                raw = put_right(raw)
        if isinstance(raw, bytes):
            return msgspec.json.decode(raw, type=self.type, strict=False)
        return msgspec.convert(raw, type=self.type, strict=False)

    def encode(self, value: Object) -> Raw:
        """The wire form of a typed value, with apiVersion and kind."""
        body: Any = msgspec.json.decode(msgspec.json.encode(value))  # through JSON, so that tuples become lists
        return {"apiVersion": self.api_version, "kind": self.name, **body}

    def __repr__(self) -> str:
        return f"<Kind {self.id}/{self.version}>"


kinds: Registry[Kind] = Registry("kind")
_by_type: dict[type[Object], Kind] = {}
_by_gvk: dict[tuple[str, str], Kind] = {}


def kind(**declaration: Any) -> Callable[[type[T]], type[T]]:
    """Declare the class below as an API kind; see `Kind` for what may be said."""

    def register(type_: type[T]) -> type[T]:
        declared = Kind(type_, name=declaration.pop("name", type_.__name__), **declaration)
        kinds.add(declared.id, declared)
        _by_type[type_] = declared
        for version in (declared.version, *declared.other_versions):
            api_version = f"{declared.group}/{version}" if declared.group else version
            _by_gvk[api_version, declared.name] = declared
        return type_

    return register


def kind_of(thing: Object | type[Object]) -> Kind:
    return _by_type[thing if isinstance(thing, type) else type(thing)]


def find_kind(api_version: str, name: str) -> Kind | None:
    """The declared kind that serves this apiVersion and kind, if any."""
    return _by_gvk.get((api_version, name))


def key_of(thing: Object) -> Key:
    return Key(kind_of(thing).id, thing.metadata.namespace, thing.metadata.name)


def wire(thing: Object) -> Raw:
    """The wire form of any typed object."""
    return kind_of(thing).encode(thing)
