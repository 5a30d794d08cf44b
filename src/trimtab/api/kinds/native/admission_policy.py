"""ValidatingAdmissionPolicies and their bindings: rules in CEL that may refuse a write."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import extension as extension_defaults
from trimtab.api.kinds.native.rules import admission_policies
from trimtab.api.value import Object

GROUP = "admissionregistration.k8s.io"
_CATEGORIES = ["api-extensions"]


@kind(
    group=GROUP,
    version="v1",
    plural="validatingadmissionpolicies",
    categories=_CATEGORIES,
    namespaced=False,
    status=True,
    custom=False,
    defaults=[extension_defaults.validating_admission_policy],
    validators=[admission_policies.check_policy],
)
class ValidatingAdmissionPolicy(Object):
    """No typed fields: the server reads it raw."""


@kind(
    group=GROUP,
    version="v1",
    plural="validatingadmissionpolicybindings",
    categories=_CATEGORIES,
    namespaced=False,
    custom=False,
    defaults=[extension_defaults.validating_admission_policy_binding],
    validators=[admission_policies.check_binding],
)
class ValidatingAdmissionPolicyBinding(Object):
    """No typed fields: the server reads it raw."""
