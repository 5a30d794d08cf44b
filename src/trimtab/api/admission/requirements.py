"""What an admission webhook demands of a request besides a valid object: permissions of its user, live namespaces.

A kind declares a pure function from the object (and the stored one) to its requirements. Who checks them depends on the
server: the embedded one asks its own authorizer, a webhook of a kube-apiserver sends SubjectAccessReviews.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest, Forbidden


class RequiredAccess(NamedTuple):
    """The user of the request must be allowed this verb."""

    verb: str
    group: str
    resource: str
    subresource: str
    name: str
    namespace: str
    message: str
    """Why the request is refused otherwise; `{user}` stands for the name of the user."""
    subject: str = ""
    """What is forbidden, as `resource.group "name"`; empty for a refusal with code 400."""

    def refusal(self, user: str) -> ApiError:
        message = self.message.replace("{user}", user)
        return Forbidden(f"{self.subject} is forbidden: {message}") if self.subject else BadRequest(message)


class LiveNamespace(NamedTuple):
    """The namespace, if it exists, must not be terminating."""

    name: str
    message: str
    subject: str

    def refusal(self) -> ApiError:
        return Forbidden(f"{self.subject} is forbidden: {self.message}")


Requirement: TypeAlias = RequiredAccess | LiveNamespace
RequirementsFunction: TypeAlias = Callable[[Raw, Raw | None], Sequence[Requirement]]
"""Returns the requirements of a new object; the second argument is the old object on update, None on create."""
