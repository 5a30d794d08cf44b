"""Requires the verb `create` of whoever creates an object with an update or a server-side apply."""

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.authorize import Action, Authorizer, denial_message

_WRITING_VERBS = {"update", "patch"}


class CreateAuthorization:
    """The admission plugin for objects that did not exist when they were updated or applied.

    The check is part of the creation, because whether the object exists is known only there. It comes before
    validation and webhooks, which are for those who may create.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind, operation: str) -> bool:
        return operation == "CREATE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        caller, where = attributes.caller, attributes.where
        if caller.verb not in _WRITING_VERBS:
            return obj
        served = where.served
        action = Action("create", served.group, served.resource, "", where.namespace, where.name)
        if not self._authorizer.allows(caller.user, action):
            why = denial_message(caller.user, action)
            raise api_errors.forbidden(served.resource, served.group, where.name, why)
        return obj
