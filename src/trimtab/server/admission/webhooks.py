"""Calls the admission webhooks of MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

import asyncio
import base64
import importlib
import ssl
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest, Invalid
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.storage.object_codec import labels_of
from trimtab.server.storage.uids import random_uid
from trimtab.store.store import Store

_PREFIX = "/registry/admissionregistration.k8s.io/"
_MUTATING = f"{_PREFIX}mutatingwebhookconfigurations/"
_VALIDATING = f"{_PREFIX}validatingwebhookconfigurations/"
GROUP = "admissionregistration.k8s.io"
_FAULTS = {kind.code: kind for kind in reversed(ApiError.__subclasses__())}
_MAX_RESPONSE_BYTES = 8 * 1024 * 1024


class _CallFailed(Exception):
    """The webhook could not be called; the text says why."""


class RegisteredWebhook(NamedTuple):
    """One webhook of one configuration."""

    name: str
    spec: Raw

    def matches_rules(self, attributes: Attributes) -> bool:
        served, sub = attributes.where.served, attributes.where.subresource
        resource = f"{served.resource}/{sub}" if sub else served.resource
        return any(
            _rule_matches(rule, attributes.operation, served.group, served.version, resource)
            for rule in self._rules_in_scope(attributes)
        )

    def _rules_in_scope(self, attributes: Attributes) -> Iterator[Raw]:
        scope = "Namespaced" if attributes.where.served.kind.namespaced else "Cluster"
        for rule in self.spec.get("rules") or ():
            if rule.get("scope", "*") in {"*", scope}:
                yield rule


def _rule_matches(rule: Raw, operation: str, group: str, version: str, resource: str) -> bool:
    resources = rule.get("resources") or ()
    parent, _, sub = resource.partition("/")
    patterns = {resource, "*/*", f"{parent}/*", f"*/{sub}"} if sub else {resource, "*", "*/*"}
    return (
        bool({"*", operation} & set(rule.get("operations") or ()))
        and bool({"*", group} & set(rule.get("apiGroups") or ()))
        and bool({"*", version} & set(rule.get("apiVersions") or ()))
        and bool(patterns & set(resources))
    )


def _selector_matches(selector: Raw | None, labels: Raw) -> bool:
    if not selector:
        return True
    rules = tuple(
        LabelSelectorRequirement(key=r["key"], operator=r["operator"], values=tuple(r.get("values") or ()))
        for r in selector.get("matchExpressions") or ()
    )
    return LabelSelector(match_labels=selector.get("matchLabels") or {}, match_expressions=rules).matches(labels)


class WebhookAdmission:
    """An admission plugin that calls every matching webhook."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        """Nothing while no webhook is configured, and never the configurations, so that each can be deleted."""
        return kind.group != GROUP and self.is_configured

    @property
    def is_configured(self) -> bool:
        return bool(self._store.count(_MUTATING) or self._store.count(_VALIDATING))

    def _matching_webhooks(
        self, prefix: str, attributes: Attributes, obj: Raw | None, old: Raw | None
    ) -> Iterator[RegisteredWebhook]:
        for entry in self._store.list(prefix).entries:
            for spec in orjson.loads(entry.value).get("webhooks") or ():
                hook = RegisteredWebhook(spec.get("name", ""), spec)
                if hook.matches_rules(attributes) and self._is_in_scope(hook, attributes, obj or old or {}):
                    yield hook

    def _is_in_scope(self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw) -> bool:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        if not _selector_matches(hook.spec.get("objectSelector"), labels):
            return False
        where = attributes.where
        if not hook.spec.get("namespaceSelector"):
            return True
        if where.served.storage == "namespaces":
            return _selector_matches(hook.spec["namespaceSelector"], labels)
        if not where.namespace:
            return True
        entry = self._store.get(f"/registry/core/namespaces/{where.namespace}")
        return _selector_matches(hook.spec["namespaceSelector"], labels_of(entry.value) if entry else {})

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        for hook in self._matching_webhooks(_MUTATING, attributes, obj, old):
            response = await self._admit(hook, attributes, obj, old)
            if response is not None and response.get("patch"):
                obj = _apply_webhook_patch(hook, obj, response)
        return obj

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        hooks = list(self._matching_webhooks(_VALIDATING, attributes, obj, old))
        if hooks:
            await asyncio.gather(*(self._admit(hook, attributes, obj, old) for hook in hooks))

    async def _admit(
        self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw | None, old: Raw | None
    ) -> Raw | None:
        """The response of a webhook that allows; None when it could not be called and its failurePolicy is Ignore."""
        if attributes.dry_run and hook.spec.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run: its side effects are unknown')
        review = _admission_review(attributes, obj, old)
        try:
            response = await self._call(hook, review)
        except _CallFailed as error:
            if hook.spec.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise api_errors.internal_error(f'failed calling webhook "{hook.name}": {error}') from None
        for text in response.get("warnings") or ():
            attributes.caller.warn(str(text))
        if not response.get("allowed"):
            raise _denial(hook.name, response.get("status") or {})
        return response

    async def _call(self, hook: RegisteredWebhook, review: Raw) -> Raw:
        seconds = hook.spec.get("timeoutSeconds") or 10
        url = self._url(hook.spec.get("clientConfig") or {})
        try:
            async with asyncio.timeout(seconds):
                body = await _post(f"{url}{'&' if '?' in url else '?'}timeout={seconds}s", review, _ssl_context(hook))
        except TimeoutError:
            raise _CallFailed(f'failed to call webhook: Post "{url}": context deadline exceeded') from None
        try:
            response = orjson.loads(body)["response"]
        except (ValueError, KeyError, TypeError):
            raise _CallFailed(
                "received invalid webhook response: it is not an AdmissionReview with a response"
            ) from None
        if not isinstance(response, dict) or response.get("uid") != review["request"]["uid"]:
            raise _CallFailed("received invalid webhook response: expected response.uid to be that of the request")
        return response

    def _url(self, client: Raw) -> str:
        if client.get("url"):
            return str(client["url"])
        service = client.get("service") or {}
        entry = self._store.get(f"/registry/core/services/{service.get('namespace')}/{service.get('name')}")
        if entry is None:
            raise _CallFailed(f'failed to call webhook: service "{service.get("name")}" not found')
        spec = orjson.loads(entry.value).get("spec") or {}
        host = spec.get("externalName") or spec.get("clusterIP") or ""
        return f"https://{host}:{service.get('port', 443)}{service.get('path') or '/'}"


def _ssl_context(hook: RegisteredWebhook) -> ssl.SSLContext:
    bundle = (hook.spec.get("clientConfig") or {}).get("caBundle")
    try:
        text = base64.b64decode(bundle).decode() if bundle else None
        return ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError) as error:
        raise _CallFailed(f"unable to load root certificates: {error}") from None


async def _post(url: str, body: Raw, context: ssl.SSLContext) -> bytes:
    aiohttp = importlib.import_module("aiohttp")  # most servers never call a webhook
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                url, data=orjson.dumps(body), ssl=context, headers={"Content-Type": "application/json"}
            ) as response,
        ):
            content: bytes = await response.content.read(_MAX_RESPONSE_BYTES)
            if response.status != 200:
                raise _CallFailed(f"failed to call webhook: the server responded with status {response.status}")
            return content
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _CallFailed(f'failed to call webhook: Post "{url}": {error}') from None


def _admission_review(attributes: Attributes, obj: Raw | None, old: Raw | None) -> Raw:
    where = attributes.where
    served, namespace, name, subresource = where.served, where.namespace, where.name, where.subresource
    kind = {"group": served.group, "version": served.version, "kind": served.kind.name}
    resource = {"group": served.group, "version": served.version, "resource": served.resource}
    request: Raw = {
        "uid": random_uid(),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": attributes.operation,
        "userInfo": attributes.caller.user.user_info(),
        "object": obj,
        "oldObject": old,
        "dryRun": attributes.dry_run,
        "options": None,
    }
    for key, value in (("name", name), ("namespace", namespace), ("subResource", subresource)):
        if value:
            request[key] = value
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _apply_webhook_patch(hook: RegisteredWebhook, obj: Raw, response: Raw) -> Raw:
    try:
        patch: Any = orjson.loads(base64.b64decode(response["patch"]))
        patched = apply_json_patch(obj, patch)
    except (ValueError, BadRequest, Invalid) as error:
        raise api_errors.internal_error(
            f'admission webhook "{hook.name}" sent a patch that does not apply: {error}'
        ) from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise api_errors.internal_error(f'admission webhook "{hook.name}" sent a patch that leaves no object')
    return patched


def _denial(name: str, status: Raw) -> ApiError:
    message = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    kind = _FAULTS.get(status.get("code") or 400, BadRequest)
    return kind(f"{message}: {why}" if why else f"{message} without explanation")
