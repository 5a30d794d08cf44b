"""Requires rights on what an object refers to, where the server or a controller acts on the reference for its author.

Without this, whoever may write the object would use the rights of the server: a Cluster could have the token of any
secret sent to any address, an admission policy could tell the values of its parameters, and a namespace could place
workloads in any set of clusters.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import orjson

from trimtab.api.admission.denials import with_webhook_name
from trimtab.api.admission.requirements import RequiredAccess, Requirement
from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import ApiError, Cause
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes, is_terminating
from trimtab.server.auth.authorize import Action, Authorizer, denial_message
from trimtab.server.auth.user import MASTERS
from trimtab.server.resources import ResourceCatalogue
from trimtab.store.keys import object_key
from trimtab.store.store import Store

_ADMISSION_GROUP = "admissionregistration.k8s.io"
_CONNECTION_FIELDS = ("apiEndpoint", "proxyURL", "proxyHeader", "insecureSkipTLSVerification")
_SECRET_FIELDS = ("secretRef", "impersonatorSecretRef")
_ANY = "*"
"""All names, namespaces or kinds: only a rule without restriction covers it."""


class Required(NamedTuple):
    """A right that the author of an object needs because of one of its fields."""

    field: str
    action: Action


FindRequired = Callable[[Raw, Raw], Iterator[Required]]
"""From the new object and the old one, which is empty on creation."""


def _spec(obj: Raw) -> Raw:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def _cluster_secrets(new: Raw, old: Raw) -> Iterator[Required]:
    """The secrets whose tokens are sent to the address of a Cluster, when they or the address change."""
    spec, before = _spec(new), _spec(old)
    is_moved = any(spec.get(field) != before.get(field) for field in _CONNECTION_FIELDS)
    for field in _SECRET_FIELDS:
        reference = spec.get(field)
        if isinstance(reference, dict) and (is_moved or reference != before.get(field)):
            namespace, name = reference.get("namespace") or "", reference.get("name") or ""
            yield Required(f"spec.{field}", Action("get", "", "secrets", "", namespace, name))


class ReferenceAuthorization:
    """The admission plugin for objects whose references are followed with rights that their authors may lack."""

    def __init__(self, authorizer: Authorizer, store: Store, catalogue: ResourceCatalogue) -> None:
        self._authorizer = authorizer
        self._store = store
        self._catalogue = catalogue
        self._rules: Mapping[str, FindRequired] = {
            "clusters.cluster.karmada.io": _cluster_secrets,
            f"validatingadmissionpolicies.{_ADMISSION_GROUP}": self._policy_parameters,
            f"validatingadmissionpolicybindings.{_ADMISSION_GROUP}": self._binding_parameters,
        }

    def handles(self, kind: Kind, operation: str) -> bool:
        return (kind.id in self._rules or bool(kind.admission_requirements)) and operation != "DELETE"

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        user, where = attributes.caller.user, attributes.where
        if obj is None or where.subresource:
            return
        for requirements in where.served.kind.admission_requirements:
            for requirement in requirements(obj, old):
                self._check_requirement(attributes, requirement)
        find_required = self._rules.get(where.served.kind.id)
        if find_required is None or MASTERS in user.groups:
            return
        for field, action in find_required(obj, old or {}):
            if not self._authorizer.allows(user, action):
                raise _refusal(attributes, field, denial_message(user, action))

    def _check_requirement(self, attributes: Attributes, requirement: Requirement) -> None:
        """What a webhook of OCM would check with a SubjectAccessReview, in its words."""
        kind, user = attributes.where.served.kind, attributes.caller.user
        if isinstance(requirement, RequiredAccess):
            verb, group, resource, subresource, name, namespace = requirement[:6]
            if not self._authorizer.allows(user, Action(verb, group, resource, subresource, namespace, name)):
                raise with_webhook_name(requirement.refusal(user.name), kind.singular, kind.group)
            return
        entry = self._store.get(object_key("", "namespaces", requirement.name))
        if entry is not None and is_terminating(entry.value):
            raise with_webhook_name(requirement.refusal(), kind.singular, kind.group)

    def _policy_parameters(self, new: Raw, old: Raw) -> Iterator[Required]:
        """As kube-apiserver: the author of a policy can read all objects of its paramKind through its messages."""
        kind = _spec(new).get("paramKind")
        if isinstance(kind, dict) and kind != _spec(old).get("paramKind"):
            yield Required("spec.paramKind", self._read_action(kind, _ANY, _ANY))

    def _binding_parameters(self, new: Raw, old: Raw) -> Iterator[Required]:
        reference = _spec(new).get("paramRef")
        unchanged = all(_spec(new).get(field) == _spec(old).get(field) for field in ("paramRef", "policyName"))
        if not isinstance(reference, dict) or unchanged:
            return
        policy = self._store.get(
            object_key(_ADMISSION_GROUP, "validatingadmissionpolicies", "", str(_spec(new).get("policyName")))
        )
        kind = _spec(orjson.loads(policy.value)).get("paramKind") if policy is not None else None
        names = reference.get("namespace") or _ANY, reference.get("name") or _ANY
        yield Required("spec.paramRef", self._read_action(kind if isinstance(kind, dict) else {}, *names))

    def _read_action(self, kind: Raw, namespace: str, name: str) -> Action:
        """Reading objects of a kind; of every kind when it is not known which resource serves it."""
        served = self._catalogue.find_kind(kind.get("apiVersion") or "", kind.get("kind") or "")
        if served is None:
            return Action("get", _ANY, _ANY, "", namespace, name)
        return Action("get", served.group, served.resource, "", namespace if served.kind.namespaced else "", name)


def _refusal(attributes: Attributes, field: str, why: str) -> ApiError:
    served, name = attributes.where.served, attributes.where.name
    if served.group == _ADMISSION_GROUP:  # kube-apiserver reports this as a fault of the field
        return api_errors.invalid(
            served.kind.name, served.group, name, [Cause("FieldValueForbidden", f"Forbidden: {why}", field)]
        )
    return api_errors.forbidden(served.resource, served.group, name, f"{field}: {why}")
