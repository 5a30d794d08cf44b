"""Checks what an admission webhook made of an object.

A webhook returns any JSON. Before the object is written, its types are checked as those of a request are, and what a
webhook may not change keeps its value: Kubernetes fills server fields and resets what the path does not own only after
admission. A changed identity is refused: the object would be stored under a key that is not its own.
"""

from trimtab.api.kinds.native import codec
from trimtab.api.value import Raw
from trimtab.errors import Cause, InternalError
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.registry.object_schema import ObjectSchema
from trimtab.server.registry.strategy import copy_members, keeps_status_on_create, prepare_update, set_server_fields

_SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_WRITES_STATUS = {"status", "approval", "binding"}


class WebhookChanges:
    """Accepts or refuses the changes of webhooks."""

    def __init__(self, object_schema: ObjectSchema) -> None:
        self._object_schema = object_schema

    def accept(self, attributes: Attributes, before: Raw, patched: Raw, old: Raw | None) -> Raw:
        """The object to write; `before` is the object that the webhook got."""
        served = attributes.where.served
        patched = {**patched, "metadata": {**patched["metadata"]}}
        _check_type(attributes, patched)
        _check_identity(attributes, before["metadata"], patched["metadata"])
        try:
            read = self._object_schema.read(served, patched).obj
        except codec.NativeDecodeError as error:
            raise _unreadable(attributes, str(error)) from None
        read = self._object_schema.apply_defaults(served, read)
        return _with_server_fields(attributes, before, read, old)


def _with_server_fields(attributes: Attributes, before: Raw, read: Raw, old: Raw | None) -> Raw:
    served, subresource = attributes.where.served, attributes.where.subresource
    if old is not None:
        new = prepare_update(served, read, old, subresource, whole=True)
    else:
        new = {**read, "metadata": {**read["metadata"]}}
    if served.kind.status and subresource not in _WRITES_STATUS and (old or not keeps_status_on_create(served)):
        copy_members(new, before, "status")
    generation = new["metadata"].get("generation")
    copy_members(new["metadata"], before["metadata"], *_SERVER_FIELDS)
    if old is None:
        set_server_fields(served, new)
    elif generation is not None:
        new["metadata"]["generation"] = generation  # a webhook that changes the spec causes a new generation
    return new


def _check_type(attributes: Attributes, patched: Raw) -> None:
    served = attributes.where.served
    if (patched.get("apiVersion"), patched.get("kind")) != (served.api_version, served.kind.name):
        raise _unreadable(attributes, f"apiVersion and kind must stay {served.api_version} and {served.kind.name}")


def _check_identity(attributes: Attributes, before: Raw, after: Raw) -> None:
    """Refuse another name or namespace; a missing namespace is that of the request."""
    where = attributes.where
    namespace = before.get("namespace") or ""
    if not after.get("namespace"):
        after.pop("namespace", None)
        if namespace:
            after["namespace"] = namespace
    checks = (("namespace", namespace), ("name", before.get("name") or ""))
    for field, wanted in checks:
        if (after.get(field) or "") == wanted:
            continue
        if attributes.operation == "CREATE":
            raise api_errors.bad_request(
                f"the {field} of the provided object does not match the {field} sent on the request: "
                "an admission webhook changed it"
            )
        message = f"Invalid value: {api_errors.quote_value(after.get(field))}: field is immutable"
        cause = Cause("FieldValueInvalid", message, f"metadata.{field}")
        raise api_errors.invalid(where.served.kind.name, where.served.group, where.name, [cause])


def _unreadable(attributes: Attributes, why: str) -> InternalError:
    return api_errors.internal_error(
        f"an admission webhook made an object that is not a {attributes.where.served.kind.name}: {why}"
    )
