"""Checks what the kinds require of a request besides a valid object, with SubjectAccessReviews."""

from trimtab.api.admission.requirements import RequiredAccess, Requirement
from trimtab.api.paths import value_at
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import NotFound
from trimtab.webhook.review import Refused, Review

ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


class RequirementChecks:
    """Asks the API server; without its answer a request is not admitted."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def check(self, review: Review, requirement: Requirement) -> None:
        """Raises `Refused` if the requirement is not met."""
        if isinstance(requirement, RequiredAccess):
            answer = await self._client.create(ACCESS_REVIEWS, access_review(review, requirement))
            if value_at(answer, "status", "allowed") is not True:
                raise Refused(requirement.refusal(review.user))
            return
        try:
            namespace = await self._client.get(NAMESPACES, "", requirement.name)
        except NotFound:
            return
        if value_at(namespace, "status", "phase") == "Terminating":
            raise Refused(requirement.refusal())


def access_review(review: Review, access: RequiredAccess) -> Raw:
    fields = {
        "verb": access.verb,
        "group": access.group,
        "resource": access.resource,
        "subresource": access.subresource,
        "name": access.name,
        "namespace": access.namespace,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": review.user,
            "uid": review.user_uid,
            "groups": list(review.groups),
            "extra": review.extra,
            "resourceAttributes": {key: value for key, value in fields.items() if value},
        },
    }
