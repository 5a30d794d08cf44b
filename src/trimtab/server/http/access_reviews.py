"""Handles access reviews, token reviews, rules reviews and self subject reviews."""

from typing import Any

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import Cause, NotAcceptable
from trimtab.server import api_errors
from trimtab.server.auth.authenticate import ISSUER, Authenticator
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.user import User
from trimtab.server.printers.responses import raw_response, response_format
from trimtab.server.registry.object_schema import ObjectSchema
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.body_decoding import decode_body
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import SUPPORTED_MEDIA_TYPES, media_type_of
from trimtab.server.request.options import parse_write_options
from trimtab.server.request.typed_bodies import check_size
from trimtab.server.resources import ObjectPath


class AccessReviews:
    """Handles every kind of review; reviews are not stored."""

    def __init__(self, resource_store: ResourceStore, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._resource_store = resource_store
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def handle(self, request: Request, where: ObjectPath) -> Response:
        served = where.served
        options = parse_write_options("CreateOptions", request.query)
        form = response_format(request, served, single=True)
        if form.transform:  # a review is not stored, so it has no columns and no metadata
            raise NotAcceptable(f"only the following media types are accepted: {SUPPORTED_MEDIA_TYPES}")
        check_size(request, served.kind.name)
        media = media_type_of(request.headers.get("content-type", ""))
        body = decode_body(media, request.body, served.api_version, served.kind.name)
        fitter: ObjectSchema = self._resource_store.object_schema
        obj = fitter.decode(served, body, options.validation, request.caller)
        obj.setdefault("metadata", {})
        if where.namespace:
            obj["metadata"] = {**obj["metadata"], "namespace": where.namespace}
        now = timestamp(self._resource_store.clock.now())
        if served.kind.name == "SelfSubjectReview":
            obj = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": now}}
        spec: Raw = obj.get("spec") or {}
        status = self._review_status(served.kind.name, spec, request.caller.user, where)
        if served.kind.name == "SelfSubjectRulesReview":
            obj["spec"] = {}
        else:
            obj = fitter.with_managed_fields(where, obj, None, options.field_manager or request.caller.user_agent, now)
        return raw_response(201, {**obj, "status": status}, form)

    def _review_status(self, kind: str, spec: Raw, user: User, where: ObjectPath) -> Raw:
        if kind == "SelfSubjectReview":
            return {"userInfo": user.user_info()}
        if kind == "TokenReview":
            return self._token_status(spec)
        if kind == "SelfSubjectRulesReview":
            return self._rules_status(user, spec)
        if kind == "SelfSubjectAccessReview":
            return self._access_status(spec, user, where)
        extra = tuple((key, tuple(values or ())) for key, values in sorted((spec.get("extra") or {}).items()))
        subject = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
        return self._access_status(spec, subject, where)

    def _access_status(self, spec: Raw, user: User, where: ObjectPath) -> Raw:
        causes = _access_causes(where.served.kind.name, spec, where.namespace)
        if causes:
            raise api_errors.invalid(where.served.kind.name, where.served.group, "", causes)
        allowed = self._authorizer.allows(user, _action_from_spec(spec))
        return {"allowed": allowed}

    def _token_status(self, spec: Raw) -> Raw:
        if not spec.get("token"):
            cause = Cause("FieldValueRequired", "Required value", "spec.token")
            raise api_errors.invalid("TokenReview", "authentication.k8s.io", "", [cause])
        audiences = spec.get("audiences") or [ISSUER]
        found = self._authenticator.verify(spec["token"], audiences)
        if isinstance(found, str):
            return {"user": {}, "error": found}
        return {"authenticated": True, "user": found.user.user_info(), "audiences": list(found.audiences)}

    def _rules_status(self, user: User, spec: Raw) -> Raw:
        namespace = spec.get("namespace") or ""
        if not namespace:
            raise api_errors.bad_request("no namespace on request")
        resource_rules, other_rules = [], []
        for rule in self._authorizer.rules_for(user, namespace):
            if rule.get("nonResourceURLs"):
                other_rules.append({key: rule[key] for key in ("verbs", "nonResourceURLs")})
            else:
                keys = ("verbs", "apiGroups", "resources", "resourceNames")
                resource_rules.append({key: rule[key] for key in keys if rule.get(key)})
        return {"resourceRules": resource_rules, "nonResourceRules": other_rules, "incomplete": False}


def _access_causes(kind: str, spec: Raw, namespace: str) -> list[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if (resource is None) == (path is None):
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(Cause("FieldValueInvalid", f"Invalid value: {message}", "spec.resourceAttributes"))
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        causes.append(
            Cause("FieldValueInvalid", "Invalid value: at least one of user or group must be specified", "spec.user")
        )
    if namespace and isinstance(resource, dict) and resource.get("namespace", "") != namespace:
        message = f"Invalid value: {api_errors.quote_value(resource.get('namespace', ''))}: must match metadata.namespace: {namespace}"
        causes.append(Cause("FieldValueInvalid", message, "spec.resourceAttributes.namespace"))
    return causes


def _action_from_spec(spec: Raw) -> Action:
    path: Any = spec.get("nonResourceAttributes")
    if path is not None:
        return Action(path.get("verb", ""), path=path.get("path", ""))
    attributes: Raw = spec["resourceAttributes"]
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Action(*(attributes.get(key) or "" for key in keys))
