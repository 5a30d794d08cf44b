"""Builds the object that is stored from the one that a request contains: defaults, owners, admission, validation."""

from collections.abc import Callable, Sequence

from trimtab.api.value import Raw
from trimtab.errors import Cause, Invalid
from trimtab.server import api_errors
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.registry.metadata import finalizer_warnings, metadata_causes, update_causes
from trimtab.server.registry.object_schema import DesiredObject, ObjectSchema
from trimtab.server.registry.strategy import prepare_create, prepare_update, set_server_fields
from trimtab.server.request import large_objects
from trimtab.server.request.options import WriteOptions, parse_version
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.store.keys import ROOT

_KINDS_REPLACED_BY_VERSION = frozenset(
    (
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "leases.coordination.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    )
)
"""Built-in kinds that a client replaces only with the version it has read, as custom resources."""


class ObjectPreparation:
    """Completes and checks new and changed objects; raises what the request is refused with."""

    def __init__(self, admission: AdmissionChain, object_schema: ObjectSchema, new_uid: Callable[[], str]) -> None:
        self._admission = admission
        self._object_schema = object_schema
        self._new_uid = new_uid

    async def new_object(self, desired: DesiredObject, options: WriteOptions, attributes: Attributes, now: str) -> Raw:
        """The object to create."""
        is_large = attributes.caller.sends_large_object
        obj = await large_objects.run(is_large, self._complete_new, desired, options, attributes, now)
        return await self._admit_new(attributes, obj)

    def _complete_new(self, desired: DesiredObject, options: WriteOptions, attributes: Attributes, now: str) -> Raw:
        """A new object with its defaults, managed fields and what the server sets."""
        where, obj = attributes.where, desired.obj
        served = where.served
        obj = {**obj, "metadata": {**obj["metadata"]}}  # copied, so that the caller's object does not change
        prepare_create(served, obj, self._object_schema.initial_status(served), whole=options.include_status)
        obj = self._object_schema.apply_defaults(served, obj)
        if not desired.applied:
            obj = self._object_schema.with_managed_fields(
                where,
                obj,
                None,
                options.field_manager or attributes.caller.user_agent,
                now,
                whole=options.include_status,
            )
        obj["metadata"] |= {"uid": self._new_uid(), "creationTimestamp": now}
        set_server_fields(served, obj)
        return obj

    async def _admit_new(self, attributes: Attributes, obj: Raw) -> Raw:
        """A new object after admission and validation."""
        served, plugins = attributes.where.served, self._admission.plugins_for(attributes)
        for plugin in plugins.mutating:
            obj = await plugin.mutate(attributes, obj, None)
        causes = await large_objects.run(attributes.caller.sends_large_object, self._causes_in_new, served, obj)
        if causes:
            raise _invalid(served, obj["metadata"].get("name") or "", causes)
        if served.kind.custom:
            _warn_of_finalizers(attributes, obj["metadata"])
        for validator in plugins.validating:
            await validator.validate(attributes, obj, None)
        return obj

    def _causes_in_new(self, served: ServedResource, obj: Raw) -> list[Cause]:
        """Why a new object is not valid."""
        return [
            *metadata_causes(obj["metadata"], served.kind.id, custom=served.kind.custom),
            *self._object_schema.validate(served, obj, None),
        ]

    async def new_event(self, event: Raw, attributes: Attributes, now: str) -> Raw:
        """A complete Event of this process, which needs no defaults and no managedFields."""
        metadata = {**event["metadata"], "uid": self._new_uid(), "creationTimestamp": now}
        return await self._admit_new(attributes, {**event, "metadata": metadata})

    async def changed_object(
        self,
        old: Raw,
        desired: DesiredObject,
        options: WriteOptions,
        attributes: Attributes,
        now: str,
        *,
        is_large: bool = False,
    ) -> Raw:
        """The object that replaces `old`; `is_large` says that one of them takes long to process."""
        served, name, subresource = attributes.where.served, attributes.where.name, attributes.where.subresource
        new = await large_objects.run(is_large, self._complete_changed, old, desired, options, attributes, now)
        plugins = self._admission.plugins_for(attributes)
        for plugin in plugins.mutating:
            new = await plugin.mutate(attributes, new, old)
        is_large = is_large or attributes.caller.sends_large_object  # a webhook may have enlarged it
        causes = await large_objects.run(is_large, self._causes_in_changed, served, new, old, subresource)
        if causes:
            raise _invalid(served, name, causes)
        if served.kind.custom:
            _warn_of_finalizers(attributes, new["metadata"], old["metadata"])
        for validator in plugins.validating:
            await validator.validate(attributes, new, old)
        return new

    def _causes_in_changed(self, served: ServedResource, new: Raw, old: Raw, subresource: str) -> list[Cause]:
        """Why a changed object is not valid."""
        causes = update_causes(new["metadata"], old["metadata"], served.kind.id, custom=served.kind.custom)
        return [*causes, *self._object_schema.validate(served, new, old, subresource)]

    def _complete_changed(
        self, old: Raw, desired: DesiredObject, options: WriteOptions, attributes: Attributes, now: str
    ) -> Raw:
        """A changed object with its defaults and managed fields, and what only the server may change as it was."""
        served, subresource = attributes.where.served, attributes.where.subresource
        new = prepare_update(served, desired.obj, old, subresource, whole=options.include_status)
        if not desired.has_defaults:
            new = self._object_schema.apply_defaults(served, new)
        if not desired.applied:
            manager = options.field_manager or attributes.caller.user_agent
            new = self._object_schema.with_managed_fields(
                attributes.where, new, old, manager, now, whole=options.include_status
            )
        return new


def metadata_with_path(where: ObjectPath, obj: Raw) -> Raw:
    """The metadata of a body, which may omit what the URL says but not contradict it."""
    name, namespace = where.name, where.namespace
    metadata: Raw = obj.setdefault("metadata", {})
    if name and metadata.get("name") and metadata["name"] != name:
        raise api_errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if name:
        metadata["name"] = name
    if where.served.kind.namespaced:
        if metadata.get("namespace") and metadata["namespace"] != namespace:
            raise api_errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    return metadata


def check_identity(served: ServedResource, old: Raw, new: Raw, *, replaces: bool) -> None:
    """Raise if the new object was derived from another version than the current one, or is another object."""
    metadata = new["metadata"]
    if metadata is old:  # the change is about other parts of the object
        return
    name = metadata.get("name", "")
    version, uid = metadata.get("resourceVersion") or "", metadata.get("uid") or ""
    if uid and uid != (current_uid := old.get("uid", "")):
        if not replaces:
            message = f"Invalid value: {api_errors.quote_value(uid)}: field is immutable"
            cause = Cause("FieldValueInvalid", message, "metadata.uid")
            raise api_errors.invalid(served.kind.name, served.group, name, [cause])
        resource = f"{served.group}/{served.resource}" if served.kind.custom else served.resource
        key = ROOT + "/".join(filter(None, (resource, metadata.get("namespace", ""), name)))
        raise api_errors.conflict(
            served.resource,
            served.group,
            name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current_uid}",
        )
    if not version:
        if replaces and (served.kind.custom or served.kind.id in _KINDS_REPLACED_BY_VERSION):
            cause = Cause(
                "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
            )
            raise api_errors.invalid(served.resource, served.group, name, [cause])
        return
    if version == old["resourceVersion"]:
        return
    number = parse_version(version)
    if number is None:
        raise api_errors.unclassified_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if number not in (int(old["resourceVersion"]), 0):
        raise api_errors.conflict(served.resource, served.group, name)


def _warn_of_finalizers(attributes: Attributes, new: Raw, old: Raw | None = None) -> None:
    for warning in finalizer_warnings(new, old):
        attributes.caller.warn(warning)


def _invalid(served: ServedResource, name: str, causes: Sequence[Cause]) -> Invalid:
    group = "" if served.storage == "events" else served.group  # both versions of events are validated as the core one
    return api_errors.invalid(served.kind.name, group, name, causes)
