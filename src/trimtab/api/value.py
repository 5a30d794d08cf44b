"""The base of every API type: frozen, camelCase on the wire, unknown fields are ignored on decoding.

A field is described where it is declared, with `Annotated[type, Field("what it means", ...)]`; schemas, CRD YAML,
`kubectl explain` texts, defaulting and validation all derive from that one place (see `api.schema`).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")

Raw: TypeAlias = dict[str, Any]
"""The decoded JSON of an object. Never mutated once shared."""

IntOrString: TypeAlias = int | str
QuantityText: TypeAlias = str | int | float
"""A Kubernetes quantity as written: `500m`, `1Gi`, or a bare number; `api.quantity` parses it."""


class MicroTime(NamedTuple):
    """Marks a time that keeps its microseconds on the wire: `Annotated[datetime, MicroTime()]`."""


class Field(NamedTuple):
    """The description and constraints of a field; the schema enforces them, decoding does not."""

    text: str = ""
    required: bool = False
    default: Any = None
    """The default that the API server sets (schema `default`); `None` means no default."""
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    format: str = ""
    min_items: int | None = None
    max_items: int | None = None
    list_type: str = ""
    """`atomic`, `set` or `map`."""
    map_keys: tuple[str, ...] = ()
    preserve_unknown: bool = False
    embedded: bool = False
    """The value is a whole Kubernetes object (`x-kubernetes-embedded-resource`)."""
    nullable: bool = False
    rules: tuple[tuple[str, str], ...] = ()
    """CEL rules as (rule, message)."""
    unconstrained: bool = False
    """The constraints of the type do not apply here: peers serve this field without a schema."""


Int32: TypeAlias = Annotated[int, Field(format="int32")]
Int64: TypeAlias = Annotated[int, Field(format="int64")]


def never_omit(value: T) -> T:
    """A default that is encoded even when unchanged, for fields that clients require."""
    factory: Callable[[], Any] = value.copy if isinstance(value, dict) else lambda: value
    written: T = msgspec.field(default_factory=factory)
    return written


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value on the wire: immutable, compared by content."""

    def but(self, **changes: Any) -> Self:
        """A copy with `changes`."""
        return msgspec.structs.replace(self, **changes)


class OwnerReference(Value):
    api_version: str = never_omit("")
    kind: str = never_omit("")
    name: str = never_omit("")
    uid: str = never_omit("")
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(Value):
    """The object metadata, as metav1.ObjectMeta."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(Value):
    """One observation about an object, as metav1.Condition."""

    type: Annotated[str, Field("The type of the condition, in CamelCase.", required=True, max_length=316)] = never_omit(
        ""
    )
    status: Annotated[
        str,
        Field("The status of the condition: True, False or Unknown.", required=True, enum=("True", "False", "Unknown")),
    ] = never_omit("Unknown")
    observed_generation: Annotated[Int64, Field("The generation that the condition was computed for.", minimum=0)] = 0
    last_transition_time: Annotated[datetime | None, Field("When the status last changed.", required=True)] = None
    reason: Annotated[
        str,
        Field(
            "The reason of the last transition, in CamelCase.",
            required=True,
            min_length=1,
            max_length=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = never_omit("")
    message: Annotated[str, Field("The details for people.", required=True, max_length=32768)] = never_omit("")


class Key(NamedTuple):
    """The key of an object: the id of its kind, its namespace (empty when cluster-wide) and its name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As log lines name the object."""
        return "/".join(filter(None, self))


class Object(Value):
    """A complete API object. apiVersion and kind come from its declaration (`api.kind`), not from fields."""

    metadata: Meta = Meta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace
