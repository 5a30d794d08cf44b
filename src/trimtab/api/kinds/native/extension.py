"""Kinds that extend the API: CustomResourceDefinitions and webhook configurations."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import extension as extension_defaults
from trimtab.api.kinds.native.rules import extensions
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
    defaults=[extension_defaults.custom_resource_definition],
    validators=[extensions.check_custom_resource_definition],
)
class CustomResourceDefinition(Object):
    """No typed fields: the server reads it raw, because its schema is data."""


@kind(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="mutatingwebhookconfigurations",
    categories=_CATEGORIES,
    namespaced=False,
    custom=False,
    defaults=[extension_defaults.mutating_webhooks],
    validators=[extensions.check_webhooks],
)
class MutatingWebhookConfiguration(Object):
    """No typed fields: the server reads it raw."""


@kind(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    categories=_CATEGORIES,
    namespaced=False,
    custom=False,
    defaults=[extension_defaults.validating_webhooks],
    validators=[extensions.check_webhooks],
)
class ValidatingWebhookConfiguration(Object):
    """No typed fields: the server reads it raw."""
