"""Kinds that can only be created: reviews and Bindings, which the server answers and does not store."""

from trimtab.api.kind import kind
from trimtab.api.value import Object

_CREATE_ONLY = ("create",)
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"


@kind(
    group=_AUTHORIZATION,
    version="v1",
    plural="selfsubjectaccessreviews",
    namespaced=False,
    custom=False,
    verbs=_CREATE_ONLY,
)
class SelfSubjectAccessReview(Object):
    """Whether the caller may perform an action."""


@kind(
    group=_AUTHORIZATION,
    version="v1",
    plural="subjectaccessreviews",
    namespaced=False,
    custom=False,
    verbs=_CREATE_ONLY,
)
class SubjectAccessReview(Object):
    """Whether a subject may perform an action."""


@kind(group=_AUTHORIZATION, version="v1", plural="localsubjectaccessreviews", custom=False, verbs=_CREATE_ONLY)
class LocalSubjectAccessReview(Object):
    """Whether a subject may perform an action in this namespace."""


@kind(
    group=_AUTHORIZATION,
    version="v1",
    plural="selfsubjectrulesreviews",
    namespaced=False,
    custom=False,
    verbs=_CREATE_ONLY,
)
class SelfSubjectRulesReview(Object):
    """The actions that the caller may perform in a namespace."""


@kind(
    group=_AUTHENTICATION, version="v1", plural="selfsubjectreviews", namespaced=False, custom=False, verbs=_CREATE_ONLY
)
class SelfSubjectReview(Object):
    """The identity of the caller."""


@kind(group=_AUTHENTICATION, version="v1", plural="tokenreviews", namespaced=False, custom=False, verbs=_CREATE_ONLY)
class TokenReview(Object):
    """The identity that a token belongs to."""


@kind(group="", version="v1", plural="bindings", custom=False, name="Binding", verbs=_CREATE_ONLY)
class PodBinding(Object):
    """Assigns a pod to a node."""
