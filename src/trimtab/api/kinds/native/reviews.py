"""Questions put to the server as objects: they are answered, never kept."""

from trimtab.api.kind import kind
from trimtab.api.value import Object

_ASK = ("create",)
_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"


@kind(
    group=_AUTHORIZATION,
    version="v1",
    plural="selfsubjectaccessreviews",
    namespaced=False,
    custom=False,
    verbs=_ASK,
)
class SelfSubjectAccessReview(Object):
    """May I?"""


@kind(group=_AUTHORIZATION, version="v1", plural="subjectaccessreviews", namespaced=False, custom=False, verbs=_ASK)
class SubjectAccessReview(Object):
    """May they?"""


@kind(group=_AUTHORIZATION, version="v1", plural="localsubjectaccessreviews", custom=False, verbs=_ASK)
class LocalSubjectAccessReview(Object):
    """May they, in this namespace?"""


@kind(group=_AUTHORIZATION, version="v1", plural="selfsubjectrulesreviews", namespaced=False, custom=False, verbs=_ASK)
class SelfSubjectRulesReview(Object):
    """What may I?"""


@kind(group=_AUTHENTICATION, version="v1", plural="selfsubjectreviews", namespaced=False, custom=False, verbs=_ASK)
class SelfSubjectReview(Object):
    """Who am I?"""


@kind(group=_AUTHENTICATION, version="v1", plural="tokenreviews", namespaced=False, custom=False, verbs=_ASK)
class TokenReview(Object):
    """Whose token is this?"""


@kind(group="", version="v1", plural="bindings", custom=False, verbs=_ASK)
class Binding(Object):
    """Ties a pod to its node."""
