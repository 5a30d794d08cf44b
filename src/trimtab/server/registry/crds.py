"""Serves the kinds of CustomResourceDefinitions: accepts, updates and removes them at run time."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Container, Iterable
from functools import partial

import orjson

from trimtab.api.kind import Column, Kind, ValidateFunction, kinds
from trimtab.api.schema.prune_and_default import compile_defaulter
from trimtab.api.schema.structural_check import RuleCheck, definition_causes
from trimtab.api.value import Object, Raw
from trimtab.clock import timestamp
from trimtab.decide.pods.budgets.scalable_kinds import scale_of
from trimtab.errors import ApiError, Cause, NotFound, StorageFailed
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.auth.user import Caller
from trimtab.server.registry.conversion_webhook import ConversionWebhook
from trimtab.server.registry.deletion import CRD_FINALIZER
from trimtab.server.registry.object_schema import DesiredObject, ObjectSchema
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource, VersionConverter
from trimtab.server.storage.object_codec import unpack
from trimtab.store.keys import key_below, resource_prefix

log = logging.getLogger("trimtab.crds")

CRD = "customresourcedefinitions.apiextensions.k8s.io"
PREFIX = resource_prefix("apiextensions.k8s.io", "customresourcedefinitions")
_RETRY_SECONDS = 1.0
_MANAGER = "kube-apiserver"
_MAX_VALID_DEFINITIONS = 256
_valid_definitions: OrderedDict[bytes, None] = OrderedDict()
"""Digests of specs that were found valid: every server of a process has the same definitions of its own kinds."""


def schema_validator(rule_check: RuleCheck, unchecked: Container[str] = ()) -> ValidateFunction:
    """A function that tells what is wrong with the schemas of a CRD; the other fields are validated with its kind.

    The rules of the CRDs named in `unchecked` are not checked.
    """

    def schema_causes(obj: Raw, old: Raw | None) -> list[Cause]:
        if old is not None and old.get("spec") == obj.get("spec"):
            return []  # a definition that was stored before a check existed still gets its status
        checks_rules = obj["metadata"].get("name") not in unchecked
        digest = _digest(obj, checks_rules=checks_rules)
        if digest in _valid_definitions:
            return []
        causes = definition_causes(obj, rule_check if checks_rules else None)
        if digest and not causes:
            _valid_definitions[digest] = None
            if len(_valid_definitions) > _MAX_VALID_DEFINITIONS:
                _valid_definitions.popitem(last=False)
        return causes

    return schema_causes


def _digest(definition: Raw, *, checks_rules: bool) -> bytes:
    """What identifies the spec of a definition and how it is checked; empty if it has an integer beyond 64 bits."""
    try:
        text = orjson.dumps([checks_rules, definition.get("spec")])
    except TypeError:
        return b""
    return hashlib.blake2b(text, digest_size=16).digest()


def _is_condition_true(obj: Raw, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _kind_of_version(spec: Raw, version: Raw) -> Kind:
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
        columns=tuple(columns),
    )


def resources_of_crd(spec: Raw, generation: int = 1, converter: VersionConverter | None = None) -> list[ServedResource]:
    """Every served version of a custom kind; with a converter if the versions differ.

    Objects may be stored without the defaults of a schema that has changed, or that another version has. They get
    them when they are read.
    """
    found = []
    defaults_on_read = generation > 1 or len(spec["versions"]) > 1
    for version in spec["versions"]:
        if version.get("served"):
            schema = version["schema"]["openAPIV3Schema"]
            defaulter = compile_defaulter(schema) if defaults_on_read else None
            fields = [field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()]
            found.append(
                ServedResource(
                    _kind_of_version(spec, version),
                    version["name"],
                    schema=partial(_identity, schema),
                    selectable=fields,
                    from_stored=defaulter or (_identity if converter else None),
                    to_stored=_identity if converter else None,
                    converter=converter,
                    deprecation_warning=_deprecation_warning(spec, version),
                )
            )
    return found


def _deprecation_warning(spec: Raw, version: Raw) -> str:
    if not version.get("deprecated"):
        return ""
    own = version.get("deprecationWarning")
    return own or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"


def _identity(raw: Raw) -> Raw:
    return raw


class CrdController:
    """Keeps the catalogue in sync with the CRDs in the store."""

    def __init__(self, resource_store: ResourceStore, object_schema: ObjectSchema, calls: ServiceCalls) -> None:
        self._resource_store = resource_store
        self._calls = calls
        self._catalogue: ResourceCatalogue = resource_store.catalogue
        self._object_schema = object_schema
        self._generations: dict[str, int] = {}
        self.reconciled_revision: int | None = None
        """The revision of the store up to which nothing is left to do, when `run` starts."""
        self._retried_keys: set[str] = set()
        """Keys of CRDs in deletion that still have objects, or whose status could not be written."""

    @property
    def _crd_resource(self) -> ServedResource:
        resource = self._catalogue.find_preferred("apiextensions.k8s.io", "customresourcedefinitions")
        if resource is None:
            raise NotFound("this server does not serve CustomResourceDefinitions")
        return resource

    def load(self) -> None:
        """Serve the CRDs that are already stored."""
        for entry in self._resource_store.store.list(PREFIX).entries:
            obj = orjson.loads(entry.value)
            if not self._is_current(obj):
                self._serve(obj, self._resources_of(obj))

    def _is_current(self, obj: Raw) -> bool:
        """Whether the kind is served as this CRD says, or does not depend on it."""
        name, metadata = obj["metadata"]["name"], obj["metadata"]
        return self._is_declared(name, obj["spec"]) or self._generations.get(name) == metadata.get("generation")

    def _resources_of(self, obj: Raw) -> list[ServedResource]:
        return resources_of_crd(obj["spec"], obj["metadata"].get("generation", 1), self._converter_of(obj))

    def _serve(self, obj: Raw, resources: Iterable[ServedResource]) -> None:
        name = obj["metadata"]["name"]
        self._stop_serving(name, obj["spec"])
        self._catalogue.add(*resources)
        self._generations[name] = obj["metadata"].get("generation", 0)

    def _converter_of(self, obj: Raw) -> VersionConverter | None:
        if (obj["spec"].get("conversion") or {}).get("strategy") != "Webhook":
            return None
        return ConversionWebhook(obj["spec"], (obj.get("status") or {}).get("storedVersions") or (), self._calls)

    def _is_declared(self, name: str, spec: Raw) -> bool:
        """Whether this server serves the kind from its declaration; a member serves none of the control plane's kinds."""
        served = self._catalogue.find_preferred(spec["group"], spec["names"]["plural"])
        return served is not None and served.kind is kinds.get(name)

    def _stop_serving(self, name: str, spec: Raw) -> None:
        for served in self._catalogue:
            if served.group == spec["group"] and served.resource == spec["names"]["plural"]:
                self._object_schema.forget_resource(served)
        self._catalogue.remove(spec["group"], spec["names"]["plural"])
        self._generations.pop(name, None)

    async def reconcile_all(self) -> None:
        for entry in self._resource_store.store.list(PREFIX).entries:
            await self._try_reconcile(entry.key)

    async def run(self) -> None:
        """Watch CRDs: serve new ones and clean up after deleted ones."""
        store = self._resource_store.store
        reconciled, self.reconciled_revision = self.reconciled_revision, None
        watch = store.watch(PREFIX, reconciled)
        if reconciled is None:
            await self.reconcile_all()
        while True:
            events = await watch.next(_RETRY_SECONDS if self._retried_keys else None)
            for key in tuple(self._retried_keys) if store.fault is None else ():
                await self._try_reconcile(key)
            for key in dict.fromkeys(event.key for event in events):
                if store.get(key) is None:
                    last = next(event.prev_value for event in reversed(events) if event.key == key)
                    if last:
                        obj = orjson.loads(last)
                        self._stop_serving(obj["metadata"]["name"], obj["spec"])
                else:
                    await self._try_reconcile(key)

    async def _try_reconcile(self, key: str) -> None:
        try:
            await self._reconcile(key)
        except StorageFailed:
            self._retried_keys.add(key)  # tried again soon; the store has logged why
        except ApiError as fault:
            log.warning("reconciling a CustomResourceDefinition failed", extra={"key": key, "why": fault.message})

    async def _reconcile(self, key: str) -> None:
        entry = self._resource_store.store.get(key)
        self._retried_keys.discard(key)
        if entry is None:
            return
        large = large_objects.is_large(entry.value)
        obj = await large_objects.run(large, unpack, self._crd_resource, entry.value, entry.mod_revision)
        if obj["metadata"].get("deletionTimestamp"):
            await self._clean_up(obj)
            return
        status = self._desired_status(obj)
        is_served = _is_condition_true({"status": status}, "NamesAccepted") and not self._is_current(obj)
        resources = await large_objects.run(large, self._resources_of, obj) if is_served else []
        try:
            if status != (obj.get("status") or {}):
                await self._update(obj["metadata"]["name"], {"status": status})
        finally:
            # Afterwards: a client that finds the kind in discovery may update the CRD at once, without a conflict.
            if is_served:
                self._serve(obj, resources)

    def _name_conflict(self, spec: Raw) -> str:
        """Which of the names another kind of the group already uses."""
        names = spec["names"]
        own = {names["plural"], names.get("singular", ""), *(names.get("shortNames") or ())}
        for served in self._catalogue:
            if served.group != spec["group"] or served.resource == names["plural"]:
                continue
            other = {served.resource, served.kind.singular, *served.kind.short}
            if served.kind.name == names["kind"]:
                return f'"{names["kind"]}" is already in use'
            if shared := sorted((own & other) - {""}):
                return f'"{shared[0]}" is already in use'
        return ""

    def _desired_status(self, obj: Raw) -> Raw:
        """The status that a CRD should have."""
        spec, before = obj["spec"], obj.get("status") or {}
        conflict = self._name_conflict(spec)
        stored = list(before.get("storedVersions") or ())
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        if storage not in stored:
            stored.append(storage)
        now = timestamp(self._resource_store.clock.now())
        accepted = ("NoConflicts", "no conflicts found") if not conflict else ("NameConflict", conflict)
        initial = ("InitialNamesAccepted", "the initial names have been accepted")
        wanted = [
            ("NamesAccepted", not conflict, *accepted),
            (
                "Established",
                not conflict or _is_condition_true(obj, "Established"),
                *(initial if not conflict else ("NotAccepted", "not all names are accepted")),
            ),
        ]
        previous = {c["type"]: c for c in before.get("conditions") or ()}
        conditions = []
        for kind, holds, reason, message in wanted:
            state = "True" if holds else "False"
            old = previous.get(kind)
            since = old["lastTransitionTime"] if old and old["status"] == state else now
            conditions.append(
                {"lastTransitionTime": since, "message": message, "reason": reason, "status": state, "type": kind}
            )
        names = before.get("acceptedNames") if conflict else spec["names"]
        return {
            "conditions": conditions,
            "acceptedNames": names or {"kind": "", "plural": ""},
            "storedVersions": stored,
        }

    async def _update(self, name: str, changes: Raw) -> None:
        def merge(old: Raw) -> DesiredObject:
            return DesiredObject({**old, **changes})

        where = ObjectPath(self._crd_resource, "", name, "status" if "status" in changes else "")
        try:
            await self._resource_store.change(where, merge, WriteOptions(field_manager=_MANAGER), Caller())
        except NotFound:
            return  # deleted meanwhile; its own event follows

    async def _clean_up(self, obj: Raw) -> None:
        """Delete every object of a kind in deletion, then remove the CRD's finalizer."""
        name, spec = obj["metadata"]["name"], obj["spec"]
        finalizers = obj["metadata"].get("finalizers") or []
        if CRD_FINALIZER not in finalizers:
            return
        served = self._catalogue.find_preferred(spec["group"], spec["names"]["plural"])
        if served is not None:
            await self._resource_store.delete_collection(ObjectPath(served), ListOptions(), DeleteOptions(), Caller())
            if self._resource_store.store.count(served.prefix):
                self._retried_keys.add(key_below(PREFIX, name))
                return  # some objects wait for their finalizers
        rest = [finalizer for finalizer in finalizers if finalizer != CRD_FINALIZER]
        await self._update(name, {"metadata": {**obj["metadata"], "finalizers": rest}})
