"""Kinds that users define while the server runs: CRDs are accepted, served, changed and cleaned up here."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import orjson

from trimtab.api.kind import Column, Kind, Scale, kinds
from trimtab.api.value import Object, Raw
from trimtab.errors import Cause, NotFound
from trimtab.server.caller import Caller
from trimtab.server.catalogue import Catalogue, Served, Where
from trimtab.server.deletion import CRD_FINALIZER
from trimtab.server.fitting import Fitter, Wanted
from trimtab.server.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.refuse import quoted
from trimtab.server.verbs import Verbs, timestamp
from trimtab.server.wire import unpack

CRD = "customresourcedefinitions.apiextensions.k8s.io"
PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_MANAGER = "kube-apiserver"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


def _required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value{': ' + detail if detail else ''}", field)


def _invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {detail}", field)


def complaints(obj: Raw, old: Raw | None) -> list[Cause]:
    """What is wrong with a CustomResourceDefinition."""
    spec: Raw = obj.get("spec") or {}
    names: Raw = spec.get("names") or {}
    name, wanted = obj["metadata"].get("name", ""), f"{names.get('plural', '')}.{spec.get('group', '')}"
    found = []
    if name != wanted:
        found.append(_invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    found += _spec_causes(spec)
    if old is not None:
        found += _immutable(spec, old.get("spec") or {}, old)
    return found


def _spec_causes(spec: Raw) -> Iterator[Cause]:
    if not spec.get("group"):
        yield _required("spec.group")
    elif "." not in spec["group"]:
        yield _invalid("spec.group", spec["group"], "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield _required("spec.scope")
    elif spec["scope"] not in {"Namespaced", "Cluster"}:
        said = f'Unsupported value: {quoted(spec["scope"])}: supported values: "Cluster", "Namespaced"'
        yield Cause("FieldValueNotSupported", said, "spec.scope")
    versions = spec.get("versions") or []
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield _invalid(
            "spec.versions",
            [v.get("name") for v in versions],
            "must have exactly one version marked as storage version",
        )
    for index, version in enumerate(versions):
        yield from _version_causes(version, f"spec.versions[{index}]")
    yield from _name_causes(spec.get("names") or {})


def _name_causes(names: Raw) -> Iterator[Cause]:
    for key in ("plural", "singular", "kind", "listKind"):
        field, value = f"spec.names.{key}", names.get(key)
        if not value:
            yield _required(field)
        elif not _LABEL.match(value if key in {"plural", "singular"} else value.lower()):
            yield _invalid(
                field,
                value,
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
                "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
                "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                if key in {"plural", "singular"}
                else "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case "
                "alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric "
                "character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            )


def _version_causes(version: Raw, field: str) -> Iterator[Cause]:
    name = version.get("name") or ""
    if not _LABEL.match(name):
        yield _invalid(
            f"{field}.name",
            name,
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        )
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        yield _required(f"{field}.schema.openAPIV3Schema")
        return
    where = f"{field}.schema.openAPIV3Schema"
    if not schema.get("type"):
        yield _required(f"{where}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield _invalid(f"{where}.type", schema["type"], "must be object at the root")
    yield from _structural_causes(schema, where, root=True)


def _structural_causes(schema: Raw, field: str, *, root: bool = False) -> Iterator[Cause]:
    """A schema must say the type of everything it speaks of."""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not root and not schema.get("type") and not free:
        yield _required(
            f"{field}.type",
            "must not be empty for specified object fields"
            if ".properties[" in field[-80:]
            else "must not be empty for specified array items",
        )
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        yield Cause(
            "FieldValueForbidden",
            "Forbidden: additionalProperties and properties are mutual exclusive",
            f"{field}.additionalProperties",
        )
    if schema.get("type") == "array" and "items" not in schema:
        yield _required(f"{field}.items", "must be specified")
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield _required(f"{field}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, dict) and not (root and name in {"metadata", "apiVersion", "kind"}):
            yield from _structural_causes(child, f"{field}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _structural_causes(schema[key], f"{field}.{key}")


def _immutable(spec: Raw, before: Raw, old: Raw) -> Iterator[Cause]:
    pairs = [("group", spec.get("group"), before.get("group")), ("scope", spec.get("scope"), before.get("scope"))]
    if _condition(old, "Established"):
        names, had = spec.get("names") or {}, before.get("names") or {}
        pairs += [(f"names.{key}", names.get(key), had.get(key)) for key in ("kind", "plural")]
    for key, now, was in pairs:
        if now != was:
            yield _invalid(f"spec.{key}", now, "field is immutable")


def fill(obj: Raw) -> Raw:
    """What a definition may leave out: names that follow from others, and how versions convert."""
    spec: Raw = {**(obj.get("spec") or {})}
    names: Raw = {**(spec.get("names") or {})}
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec |= {"names": names}
    spec.setdefault("conversion", {"strategy": "None"})
    return {**obj, "spec": spec}


def _condition(obj: Raw, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _scale(version: Raw) -> Scale | None:
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return None
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))


def _kind(spec: Raw, version: Raw) -> Kind:
    names = spec["names"]
    columns = [
        Column(c["name"], c["jsonPath"], c["type"], c.get("format", ""), c.get("priority", 0), c.get("description", ""))
        for c in version.get("additionalPrinterColumns") or ()
    ]
    return Kind(
        Object,
        group=spec["group"],
        version=version["name"],
        name=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        short=names.get("shortNames") or (),
        categories=names.get("categories") or (),
        namespaced=spec["scope"] == "Namespaced",
        status="status" in (version.get("subresources") or {}),
        scale=_scale(version),
        columns=columns,
    )


def served_by_definition(spec: Raw) -> list[Served]:
    """Every served version of a user's kind."""
    found = []
    for version in spec["versions"]:
        if version.get("served"):
            schema = version["schema"]["openAPIV3Schema"]
            fields = [field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()]
            found.append(
                Served(_kind(spec, version), version["name"], schema=partial(_same, schema), selectable=fields)
            )
    return found


def _same(schema: Raw) -> Raw:
    return schema


class Definitions:
    """Keeps the catalogue in step with the definitions in the store."""

    def __init__(self, verbs: Verbs, fitter: Fitter) -> None:
        self._verbs = verbs
        self._catalogue: Catalogue = verbs.catalogue
        self._fitter = fitter
        self._generations: dict[str, int] = {}

    @property
    def _served(self) -> Served:
        found = self._catalogue.preferred("apiextensions.k8s.io", "customresourcedefinitions")
        if found is None:
            raise NotFound("this server does not serve definitions")
        return found

    def load(self) -> None:
        """Serve what was defined before this start."""
        for entry in self._verbs.store.list(PREFIX).entries:
            self._serve(orjson.loads(entry.value))

    def _serve(self, obj: Raw) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        if name in kinds or self._generations.get(name) == obj["metadata"].get("generation"):
            return  # kinds of our own are served from their declaration
        self._withdraw(name, spec)
        for served in served_by_definition(spec):
            self._catalogue.add(served)
        self._generations[name] = obj["metadata"].get("generation", 0)

    def _withdraw(self, name: str, spec: Raw) -> None:
        for served in self._catalogue:
            if served.group == spec["group"] and served.resource == spec["names"]["plural"]:
                self._fitter.forget(served)
        self._catalogue.remove(spec["group"], spec["names"]["plural"])
        self._generations.pop(name, None)

    async def follow(self) -> None:
        """Serve new definitions, clean up after deleted ones."""
        store = self._verbs.store
        watch = store.watch(PREFIX, store.revision)
        for entry in store.list(PREFIX).entries:
            await self._settle(entry.key)
        async for events in watch:
            for key in dict.fromkeys(event.key for event in events):
                if store.get(key) is None:
                    gone = next(event.prev_value for event in reversed(events) if event.key == key)
                    if gone:
                        obj = orjson.loads(gone)
                        self._withdraw(obj["metadata"]["name"], obj["spec"])
                else:
                    await self._settle(key)

    async def _settle(self, key: str) -> None:
        entry = self._verbs.store.get(key)
        if entry is None:
            return
        obj = unpack(self._served, entry.value, entry.mod_revision)
        if obj["metadata"].get("deletionTimestamp"):
            await self._clean_up(obj)
            return
        status = self._status(obj)
        if _condition({"status": status}, "NamesAccepted"):
            self._serve(obj)
        if status != (obj.get("status") or {}):
            await self._write(obj["metadata"]["name"], {"status": status})

    def _clash(self, spec: Raw) -> str:
        """Which of the names belongs to another kind of the group already."""
        names = spec["names"]
        mine = {names["plural"], names.get("singular", ""), *(names.get("shortNames") or ())}
        for served in self._catalogue:
            if served.group != spec["group"] or served.resource == names["plural"]:
                continue
            theirs = {served.resource, served.kind.singular, *served.kind.short}
            if served.kind.name == names["kind"]:
                return f'"{names["kind"]}" is already in use'
            if taken := sorted((mine & theirs) - {""}):
                return f'"{taken[0]}" is already in use'
        return ""

    def _status(self, obj: Raw) -> Raw:
        """The status that a definition should have."""
        spec, before = obj["spec"], obj.get("status") or {}
        clash = self._clash(spec)
        stored = list(before.get("storedVersions") or ())
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        if storage not in stored:
            stored.append(storage)
        now = timestamp(self._verbs.clock.now())
        accepted = ("NoConflicts", "no conflicts found") if not clash else ("NameConflict", clash)
        initial = ("InitialNamesAccepted", "the initial names have been accepted")
        wanted = [
            ("NamesAccepted", not clash, *accepted),
            (
                "Established",
                not clash or _condition(obj, "Established"),
                *(initial if not clash else ("NotAccepted", "not all names are accepted")),
            ),
        ]
        had = {c["type"]: c for c in before.get("conditions") or ()}
        conditions = []
        for kind, holds, reason, message in wanted:
            state = "True" if holds else "False"
            known = had.get(kind)
            moment = known["lastTransitionTime"] if known and known["status"] == state else now
            conditions.append(
                {"lastTransitionTime": moment, "message": message, "reason": reason, "status": state, "type": kind}
            )
        names = before.get("acceptedNames") if clash else spec["names"]
        return {
            "conditions": conditions,
            "acceptedNames": names or {"kind": "", "plural": ""},
            "storedVersions": stored,
        }

    async def _write(self, name: str, changes: Raw) -> None:
        async def changed(old: Raw) -> Wanted:
            return Wanted({**old, **changes})

        where = Where(self._served, "", name, "status" if "status" in changes else "")
        try:
            await self._verbs.change(where, changed, WriteOptions(manager=_MANAGER), Caller())
        except NotFound:
            return  # deleted meanwhile; its own event follows

    async def _clean_up(self, obj: Raw) -> None:
        """Delete every object of a kind that is going away, then let the definition go."""
        name, spec = obj["metadata"]["name"], obj["spec"]
        finalizers = obj["metadata"].get("finalizers") or []
        if CRD_FINALIZER not in finalizers:
            return
        served = self._catalogue.preferred(spec["group"], spec["names"]["plural"])
        if served is not None:
            await self._verbs.delete_collection(Where(served), ListOptions(), DeleteOptions(), Caller())
            if self._verbs.store.count(served.prefix):
                return  # some wait for their finalizers
        rest = [finalizer for finalizer in finalizers if finalizer != CRD_FINALIZER]
        await self._write(name, {"metadata": {**obj["metadata"], "finalizers": rest}})
