"""Declarations of API kinds: names, scope, columns, subresources, defaulting and validation of each object type.

Discovery, OpenAPI, CRD YAML, Table output, defaulting and validation derive from a `Kind`; adding a kind is one module
in `api.kinds` whose classes carry `@kind(...)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from trimtab.api.admission.requirements import RequirementsFunction
from trimtab.api.shared_decoding import decode_changed
from trimtab.api.shared_parts import shared_parts
from trimtab.api.value import Key, Object, Raw, Value
from trimtab.errors import Cause
from trimtab.registry import Registry

T = TypeVar("T", bound=Object)
ObjectType: TypeAlias = type[Object]
"""The class of an object; an alias, because `Kind` has a field called `type`."""

DefaultFunction = Callable[[Raw], Raw]
"""Sets defaults; returns the same object when there was nothing to set."""

ValidateFunction = Callable[[Raw, Raw | None], Sequence[Cause]]
"""Returns the validation errors of a new object; the second argument is the old object on update, None on create."""

ChangeFunction = Callable[[Raw, Raw | None, datetime], Raw]
"""Changes a new object: with the old object on update, None on create, and the time. Raises `BadRequest` to refuse it."""


class Column(NamedTuple):
    """A printer column: `path` is a JSON path for custom resources; the server computes the cells of built-in kinds."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    text: str = ""
    shows_all: bool = False
    """Whether the embedded server prints all values at the path; a kube-apiserver prints the first."""


class ScalePaths(NamedTuple):
    """JSON paths of the scale subresource."""

    spec_path: str = ".spec.replicas"
    status_path: str = ".status.replicas"
    selector_path: str = ""


class OtherVersion(NamedTuple):
    """A version of a kind that is served besides the stored version."""

    object_type: type[Object] | None = None
    """The class of objects in this version; None: the same as in the stored version."""
    to_stored: Callable[[Raw], Raw] | None = None
    """Converts an object to the stored version (except apiVersion); None: nothing to convert."""
    from_stored: Callable[[Raw], Raw] | None = None
    compatible: bool = False
    """The stored version accepts all fields of this one, so that changing only apiVersion loses nothing."""


@dataclass(eq=False, repr=False)
class Kind:
    """The declaration of one kind in one group."""

    type: ObjectType
    _: KW_ONLY
    group: str
    version: str
    name: str
    plural: str
    singular: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = False
    scale: ScalePaths | None = None
    columns: tuple[Column, ...] = ()
    progress_columns: tuple[Column, ...] = ()
    """Columns of the profile `trimtab`, in place of `columns`, for a kind whose upstream definition shows no progress."""
    custom: bool = True
    """True: behaves as a custom resource defined by a CRD; False: behaves as a Kubernetes built-in."""
    other_versions: Mapping[str, OtherVersion] = field(default_factory=dict)
    text: str = ""
    normalizers: tuple[DefaultFunction, ...] = ()
    """Rewrite older spellings of fields; run on every read, since a kube-apiserver stores objects as they were sent."""
    defaults: tuple[DefaultFunction, ...] = ()
    """Defaulting of the kind itself beyond schema defaults (every server runs it); the normalizers run first."""
    validators: tuple[ValidateFunction, ...] = ()
    """Validation of the kind itself (every server runs it)."""
    admission_defaults: tuple[DefaultFunction, ...] = ()
    """Defaulting that upstream does in an admission webhook (`trimtab up`, not `trimtab apiserver`)."""
    admission_validators: tuple[ValidateFunction, ...] = ()
    """Validation that upstream does in an admission webhook (`trimtab up`, not `trimtab apiserver`)."""
    admission_changes: tuple[ChangeFunction, ...] = ()
    """Changes that upstream makes in an admission webhook and that depend on the stored object and the time."""
    admission_requirements: tuple[RequirementsFunction, ...] = ()
    """Permissions and namespaces that upstream checks in an admission webhook."""
    large_part: str = ""
    """A field of the spec that may have hundreds of items and be the same in many objects.

    Such an object is decoded only where it has changed, and shares this field with the others. The field has the same name on
    the wire.
    """
    verbs: tuple[str, ...] = ()
    """Restricts the served verbs when given (create-only kinds such as SelfSubjectAccessReview)."""

    def __post_init__(self) -> None:
        self.singular = self.singular or self.name.lower()
        self.defaults = (*self.normalizers, *self.defaults)
        self.short, self.categories = tuple(self.short), tuple(self.categories)
        self.columns, self.verbs = tuple(self.columns), tuple(self.verbs)

    def columns_in(self, *, progress: bool) -> tuple[Column, ...]:
        """The printer columns, with or without those of the profile `trimtab`."""
        return (self.progress_columns if progress else ()) or self.columns

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def id(self) -> str:
        """The name in the registry: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def type_in(self, version: str) -> ObjectType:
        """The class of objects in one of the served versions."""
        other = self.other_versions.get(version, OtherVersion())
        return other.object_type or self.type

    def convert(self, raw: Raw, version: str) -> Raw:
        """The object in another served version; the same object when it is in that version already."""
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
        """The typed object of its wire form; fields that the type does not declare are ignored."""
        if self.normalizers:
            raw = msgspec.json.decode(raw, type=dict) if isinstance(raw, bytes) else raw
            for normalize in self.normalizers:
                raw = normalize(raw)
        if isinstance(raw, bytes):
            return msgspec.json.decode(raw, type=self.type, strict=False)
        if self.large_part and shared_parts.has_large and (part := _find_part(raw, self.large_part)) is not None:
            spec = {name: value for name, value in raw["spec"].items() if name != self.large_part}
            rest = msgspec.convert({**raw, "spec": spec}, type=self.type, strict=False)
            return _with_part(rest, self.large_part, part)
        return msgspec.convert(raw, type=self.type, strict=False)

    def decode_changed(self, raw: Raw, before: Raw, decoded: Object) -> Object:
        """`decode` of an object that a write made of `before`, whose typed object is `decoded`: shares what is unchanged."""
        normal = raw
        for normalize in self.normalizers:
            normal = normalize(normal)
        if normal is not raw:
            return self.decode(raw)
        changed = decode_changed(self.type, raw, before, decoded)
        return cast("Object", changed)

    def encode(self, value: Object) -> Raw:
        """The wire form of a typed object, with apiVersion and kind."""
        typed = getattr(cast("Any", value).spec, self.large_part) if self.large_part else None
        part = shared_parts.wire_form(typed) if typed is not None else None
        if part is not None:
            value = _with_part(value, self.large_part, None)
        body: Any = msgspec.json.decode(msgspec.json.encode(value))  # through JSON, because it turns tuples into lists
        if part is not None:
            body["spec"][self.large_part] = part
        return {"apiVersion": self.api_version, "kind": self.name, **body}

    def __repr__(self) -> str:
        return f"<Kind {self.id}/{self.version}>"


def _find_part(raw: Raw, name: str) -> Value | None:
    """The typed value of a part of the spec if its wire form was made of one."""
    spec = raw.get("spec")
    part = spec.get(name) if isinstance(spec, dict) else None
    return shared_parts.typed_value(part) if part is not None else None


def _with_part(value: Object, name: str, part: Value | None) -> Object:
    """The object with another value of one field of its spec."""
    spec = msgspec.structs.replace(cast("Any", value).spec, **{name: part})
    return msgspec.structs.replace(value, spec=spec)


kinds: Registry[Kind] = Registry("kind")
_by_type: dict[type[Any], Kind] = {}
_by_gvk: dict[tuple[str, str], Kind] = {}


def kind(**declaration: Any) -> Callable[[type[T]], type[T]]:
    """Declare a class as an API kind; the keyword arguments are the fields of `Kind`."""

    def register(type_: type[T]) -> type[T]:
        declared = Kind(type_, name=declaration.pop("name", type_.__name__), **declaration)
        kinds.add(declared.id, declared)
        _by_type[type_] = declared
        for version in (declared.version, *declared.other_versions):
            api_version = f"{declared.group}/{version}" if declared.group else version
            _by_gvk[api_version, declared.name] = declared
        return type_

    return register


def kind_of(obj: Object | type[Object]) -> Kind:
    type_ = type(obj)
    return _by_type[type_] if type_ in _by_type else _by_type[obj if isinstance(obj, type) else type_]


def find_kind(api_version: str, name: str) -> Kind | None:
    """The declared kind that serves this apiVersion and kind, if any."""
    return _by_gvk.get((api_version, name))


def key_of(obj: Object) -> Key:
    return Key(kind_of(obj).id, obj.metadata.namespace, obj.metadata.name)


def to_wire(obj: Object) -> Raw:
    """The wire form of any typed object."""
    return kind_of(obj).encode(obj)
