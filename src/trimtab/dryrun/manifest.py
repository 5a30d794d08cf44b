"""Objects of files, with where they were written."""

from typing import NamedTuple, TypeVar

from trimtab.api.kinds.policy import Policy
from trimtab.api.value import Object, Raw
from trimtab.dryrun.documents import Document

T = TypeVar("T", bound=Object)


class Manifest(NamedTuple):
    """One object of a file with all defaults set."""

    raw: Raw
    document: Document
    typed: Object | None
    """None for unknown kinds; they can be propagated too."""

    @property
    def name(self) -> str:
        return display_name(self.raw)

    @property
    def as_written(self) -> Raw:
        """The object as it was written, without defaults, in the namespace that it is applied to."""
        namespace = self.raw["metadata"].get("namespace", "")
        obj = self.document.obj
        return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}} if namespace else obj


def display_name(raw: Raw) -> str:
    """`Deployment demo/web`."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{raw['kind']} {namespace}/{metadata['name']}" if namespace else f"{raw['kind']} {metadata['name']}"


class Manifests(NamedTuple):
    """All objects of the files, and the warnings about them."""

    items: tuple[Manifest, ...]
    warnings: tuple[str, ...]

    def all(self, type_: type[T]) -> list[T]:
        return [item.typed for item in self.items if isinstance(item.typed, type_)]

    @property
    def policies(self) -> list[Policy]:
        return [item.typed for item in self.items if isinstance(item.typed, Policy)]

    def location_of(self, obj: Object) -> str:
        return next((item.document.location for item in self.items if item.typed is obj), "")
