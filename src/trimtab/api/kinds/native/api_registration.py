"""APIServices: which server serves a version of a group."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import extension as extension_defaults
from trimtab.api.kinds.native.rules import api_services
from trimtab.api.value import Object


@kind(
    group="apiregistration.k8s.io",
    version="v1",
    plural="apiservices",
    categories=["api-extensions"],
    namespaced=False,
    status=True,
    custom=False,
    name="APIService",
    defaults=[extension_defaults.api_service],
    validators=[api_services.check_api_service],
)
class ApiService(Object):
    """No typed fields: the server reads it raw."""
