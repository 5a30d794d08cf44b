"""Calls the admission webhooks of MutatingWebhookConfigurations and ValidatingWebhookConfigurations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import NamedTuple

from trimtab.api.kind import Kind
from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.api.selectors import LabelSelector, LabelSelectorRequirement
from trimtab.api.value import Raw
from trimtab.errors import ApiError, BadRequest
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.dynamic.admission_reviews import (
    Answer,
    admission_review,
    decode_patch,
    denial,
    encode_review,
    read_answer,
    review_version,
)
from trimtab.server.admission.dynamic.match_conditions import ConditionEvaluator, checks_for, should_call
from trimtab.server.admission.dynamic.service_calls import ServiceCalls
from trimtab.server.admission.dynamic.webhook_calls import CallFailed
from trimtab.server.auth.authorize import Authorizer
from trimtab.server.request import large_objects
from trimtab.server.storage.object_codec import labels_of
from trimtab.store.decoded_entries import DecodedEntries
from trimtab.store.keys import object_key, resource_prefix
from trimtab.store.store import Store

GROUP = "admissionregistration.k8s.io"
_MUTATING = resource_prefix(GROUP, "mutatingwebhookconfigurations")
_VALIDATING = resource_prefix(GROUP, "validatingwebhookconfigurations")
MUTATING_HOOKS, VALIDATING_HOOKS = f"mutatingwebhookconfigurations.{GROUP}", f"validatingwebhookconfigurations.{GROUP}"

COMPARED_PER_TURN = 100
"""Webhooks or policies that are compared with a request in one turn of the event loop; the first time each is decoded."""
AcceptChanges = Callable[[Attributes, Raw, Raw, Raw | None], Raw]
"""Checks what a webhook made of an object: (attributes, before, patched, stored object) -> the object to write."""


class RegisteredWebhook(NamedTuple):
    """One webhook of one configuration."""

    name: str
    spec: Raw

    def matches_rules(self, attributes: Attributes) -> bool:
        served, sub = attributes.where.served, attributes.where.subresource
        resource = f"{served.resource}/{sub}" if sub else served.resource
        return any(
            rule_matches(rule, attributes.operation, served.group, served.version, resource)
            for rule in self._rules_in_scope(attributes)
        )

    def _rules_in_scope(self, attributes: Attributes) -> Iterator[Raw]:
        scope = "Namespaced" if attributes.where.served.kind.namespaced else "Cluster"
        for rule in self.spec.get("rules") or ():
            if rule.get("scope", "*") in {"*", scope}:
                yield rule


def rule_matches(rule: Raw, operation: str, group: str, version: str, resource: str) -> bool:
    resources = rule.get("resources") or ()
    parent, _, sub = resource.partition("/")
    patterns = {resource, "*/*", f"{parent}/*", f"*/{sub}"} if sub else {resource, "*", "*/*"}
    return (
        bool({"*", operation} & set(rule.get("operations") or ()))
        and bool({"*", group} & set(rule.get("apiGroups") or ()))
        and bool({"*", version} & set(rule.get("apiVersions") or ()))
        and bool(patterns & set(resources))
    )


def selector_matches(selector: Raw | None, labels: Raw) -> bool:
    if not selector:
        return True
    rules = tuple(
        LabelSelectorRequirement(key=r["key"], operator=r["operator"], values=tuple(r.get("values") or ()))
        for r in selector.get("matchExpressions") or ()
    )
    return LabelSelector(match_labels=selector.get("matchLabels") or {}, match_expressions=rules).matches(labels)


class WebhookAdmission:
    """An admission plugin that calls every matching webhook."""

    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        accept_changes: AcceptChanges,
        conditions: ConditionEvaluator,
        calls: ServiceCalls,
    ) -> None:
        self._store = store
        self._calls = calls
        self._authorizer = authorizer
        self._accept_changes = accept_changes
        self._conditions = conditions
        self._decoded = DecodedEntries()

    def handles(self, kind: Kind, operation: str) -> bool:
        """Nothing while no webhook is configured, and never the configurations, so that each can be deleted."""
        return kind.group != GROUP and self.is_configured

    @property
    def is_configured(self) -> bool:
        return bool(self._store.count(_MUTATING) or self._store.count(_VALIDATING))

    async def _webhooks(self, prefix: str, attributes: Attributes) -> AsyncIterator[RegisteredWebhook]:
        """The webhooks whose rules match the request; while there are many, others take turns."""
        compared = 0
        for entry in self._store.list(prefix).entries:
            for spec in self._decoded.decode(entry).get("webhooks") or ():
                hook = RegisteredWebhook(spec.get("name", ""), spec)
                if hook.matches_rules(attributes):
                    yield hook
                compared += 1
                if compared % COMPARED_PER_TURN == 0:
                    await asyncio.sleep(0)

    async def _should_call(
        self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw | None, old: Raw | None
    ) -> bool:
        """Whether the selectors and conditions of a webhook match the object as it is now."""
        if not self._is_in_scope(hook, attributes, obj or old or {}):
            return False
        # an expression takes as long as its author likes, up to the limit of its cost
        if not hook.spec.get("matchConditions"):
            return True
        checks = checks_for(self._authorizer, attributes)
        return await large_objects.run(True, should_call, self._conditions, hook.spec, attributes, checks, obj, old)

    def _is_in_scope(self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw) -> bool:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        if not selector_matches(hook.spec.get("objectSelector"), labels):
            return False
        where = attributes.where
        if not hook.spec.get("namespaceSelector"):
            return True
        if where.served.storage == "namespaces":
            return selector_matches(hook.spec["namespaceSelector"], labels)
        if not where.namespace:
            return True
        entry = self._store.get(object_key("", "namespaces", where.namespace))
        return selector_matches(hook.spec["namespaceSelector"], labels_of(entry.value) if entry else {})

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        async for hook in self._webhooks(_MUTATING, attributes):
            if not await self._should_call(hook, attributes, obj, old):
                continue
            answer = await self._admit(hook, attributes, obj, old, mutating=True)
            if answer is not None and answer.patch:
                if large_objects.is_large(answer.patch):
                    attributes.caller.sends_large_object = True  # what follows takes long as well
                is_large = attributes.caller.sends_large_object
                obj = await large_objects.run(is_large, self._accept_patch, hook, attributes, obj, answer, old)
        return obj

    def _accept_patch(
        self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw, answer: Answer, old: Raw | None
    ) -> Raw:
        """What a webhook made of an object, if that is acceptable."""
        patched = _apply_patch(hook, obj, answer)
        return self._accept_changes(attributes, obj, patched, old) if patched is not obj else obj

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if obj is None:
            await self._admit_deletion(attributes, old)
        hooks = [
            hook
            async for hook in self._webhooks(_VALIDATING, attributes)
            if await self._should_call(hook, attributes, obj, old)
        ]
        if hooks:
            await asyncio.gather(*(self._admit(hook, attributes, obj, old, mutating=False) for hook in hooks))

    async def _admit_deletion(self, attributes: Attributes, old: Raw | None) -> None:
        """Mutating webhooks may refuse a deletion, but there is no object for them to change."""
        async for hook in self._webhooks(_MUTATING, attributes):
            if not await self._should_call(hook, attributes, None, old):
                continue
            answer = await self._admit(hook, attributes, None, old, mutating=True)
            if answer is not None and answer.patch:
                raise api_errors.internal_error(
                    f'admission webhook "{hook.name}" attempted to modify the object, '
                    "which is not supported for this operation"
                )

    async def _admit(
        self, hook: RegisteredWebhook, attributes: Attributes, obj: Raw | None, old: Raw | None, *, mutating: bool
    ) -> Answer | None:
        """The answer of a webhook that allows; None when it could not be called and its failurePolicy is Ignore."""
        if attributes.dry_run and hook.spec.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run: its side effects are unknown')
        try:
            version = review_version(hook.spec.get("admissionReviewVersions") or ())
            review = admission_review(attributes, obj, old, version)
            seconds = hook.spec.get("timeoutSeconds") or 10
            content = await self._calls.post(hook.spec.get("clientConfig") or {}, encode_review(review), seconds)
            answer = read_answer(content, review, mutating=mutating)
        except CallFailed as error:
            if hook.spec.get("failurePolicy", "Fail") == "Ignore":
                return None
            raise api_errors.internal_error(f'failed calling webhook "{hook.name}": {error}') from None
        for text in answer.warnings or ():
            attributes.caller.warn(text)
        if not answer.allowed:
            raise denial(hook.name, answer.status)
        return answer


def _apply_patch(hook: RegisteredWebhook, obj: Raw, answer: Answer) -> Raw:
    try:
        patched = apply_json_patch(obj, decode_patch(answer))
    except (ValueError, ApiError) as error:
        raise api_errors.internal_error(
            f'admission webhook "{hook.name}" sent a patch that does not apply: {error}'
        ) from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise api_errors.internal_error(f'admission webhook "{hook.name}" sent a patch that leaves no object')
    return patched
