"""A `View` over a fixed set of objects."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from trimtab.api.kind import find_kind
from trimtab.api.profile import Profile
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import NOT_FETCHED, Index, NotFetched, Ref
from trimtab.dryrun.manifests import Manifest

T = TypeVar("T", bound=Object)


class StaticView:
    """A controller's View of the given objects, without members and without process memory."""

    fault = None
    settings: Mapping[str, Any] = {}

    def __init__(
        self,
        items: Sequence[Manifest],
        *,
        now: datetime,
        profile: Profile,
        parts: Mapping[str, Any],
        more: Iterable[Object] = (),
    ) -> None:
        self.now = self.steady_now = now
        self.profile = profile
        self._parts = parts
        self._raws = [item.raw for item in items]
        objects = [*(item.typed for item in items if item.typed is not None), *more]
        self._objects = sorted(objects, key=lambda thing: (thing.namespace, thing.name))

    def get(self, type_: type[T], namespace: str, name: str) -> T | None:
        return next((thing for thing in self.all(type_, namespace) if thing.name == name), None)

    def all(self, type_: type[T], namespace: str | None = None) -> Sequence[T]:
        return [t for t in self._objects if isinstance(t, type_) and (namespace is None or t.namespace == namespace)]

    def by_index(self, index: Index[T], value: str) -> Sequence[T]:
        return [thing for thing in self.all(index.type) if value in index.values(thing)]

    def raw(self, ref: Ref) -> Raw | None:
        raws = self.raws(ref.api_version, ref.kind, ref.namespace)
        return next((raw for raw in raws if raw["metadata"]["name"] == ref.name), None)

    def raws(self, api_version: str, kind: str, namespace: str | None = None) -> Sequence[Raw]:
        return [
            raw
            for raw in self._raws
            if (raw["apiVersion"], raw["kind"]) == (api_version, kind)
            and (namespace is None or raw["metadata"].get("namespace", "") == namespace)
        ]

    def member(self, cluster: str, ref: Ref) -> Raw | NotFetched | None:
        return NOT_FETCHED

    def key(self, ref: Ref) -> Key | None:
        kind = find_kind(ref.api_version, ref.kind)
        return Key(kind.id, ref.namespace, ref.name) if kind is not None else None

    def part(self, name: str) -> Any:
        return self._parts[name]

    def recall(self, topic: str, key: Hashable) -> Any:
        return None
