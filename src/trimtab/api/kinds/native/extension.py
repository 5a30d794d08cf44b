"""What extends the API itself: kinds of the users' own, and webhooks."""

from trimtab.api.kind import kind
from trimtab.api.value import Object

_CATEGORIES = ["api-extensions"]


@kind(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    short=["crd", "crds"],
    categories=_CATEGORIES,
    namespaced=False,
    status=True,
    custom=False,
)
class CustomResourceDefinition(Object):
    """The server reads it raw: its schema is data."""


@kind(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    categories=_CATEGORIES,
    namespaced=False,
    custom=False,
)
class MutatingWebhookConfiguration(Object):
    """The server reads it raw."""


@kind(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    categories=_CATEGORIES,
    namespaced=False,
    custom=False,
)
class ValidatingWebhookConfiguration(Object):
    """The server reads it raw."""
