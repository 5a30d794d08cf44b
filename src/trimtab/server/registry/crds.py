"""Kinds that users define while the server runs: CRDs are accepted, served, changed and cleaned up here."""

import logging
from functools import partial

import orjson

from trimtab.api.kind import Column, Kind, kinds
from trimtab.api.schema.structural_check import definition_causes
from trimtab.api.value import Object, Raw
from trimtab.clock import timestamp
from trimtab.decide.pods.budgets.scalable_kinds import scale_of
from trimtab.errors import ApiFault, Cause, NotFound
from trimtab.server.auth.user import Caller
from trimtab.server.http.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.registry.deletion import CRD_FINALIZER
from trimtab.server.registry.object_schema import Fitter, Wanted
from trimtab.server.registry.resource_store import Verbs
from trimtab.server.registry.resources import Catalogue, Served, Where
from trimtab.server.storage.object_codec import unpack

log = logging.getLogger("trimtab.definitions")

CRD = "customresourcedefinitions.apiextensions.k8s.io"
PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_RETRY_SECONDS = 1.0
_MANAGER = "kube-apiserver"


def complaints(obj: Raw, old: Raw | None) -> list[Cause]:
    """What is wrong with the schemas of a definition; everything else about it is checked with its kind."""
    return definition_causes(obj)


def _condition(obj: Raw, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


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
        scale=scale_of(version),
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
        self._ending: set[str] = set()
        """Definitions that wait for the last object of their kind."""

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
            await self._try(entry.key)
        while True:
            events = await watch.next(_RETRY_SECONDS if self._ending else None)
            for key in tuple(self._ending):
                await self._try(key)
            for key in dict.fromkeys(event.key for event in events):
                if store.get(key) is None:
                    gone = next(event.prev_value for event in reversed(events) if event.key == key)
                    if gone:
                        obj = orjson.loads(gone)
                        self._withdraw(obj["metadata"]["name"], obj["spec"])
                else:
                    await self._try(key)

    async def _try(self, key: str) -> None:
        try:
            await self._settle(key)
        except ApiFault as fault:
            log.warning("a definition has to wait", extra={"key": key, "why": fault.message})

    async def _settle(self, key: str) -> None:
        entry = self._verbs.store.get(key)
        self._ending.discard(key)
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
        def changed(old: Raw) -> Wanted:
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
                self._ending.add(f"{PREFIX}{name}")
                return  # some wait for their finalizers
        rest = [finalizer for finalizer in finalizers if finalizer != CRD_FINALIZER]
        await self._write(name, {"metadata": {**obj["metadata"], "finalizers": rest}})
