"""ValidatingAdmissionPolicies: every binding whose rules match a write evaluates the validations of its policy."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import ApiError, Invalid
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.dynamic.admission_reviews import admission_review
from trimtab.server.admission.dynamic.match_conditions import checks_for
from trimtab.server.admission.dynamic.policy_expressions import PolicyError, PolicyExpressions, variable_values
from trimtab.server.admission.dynamic.webhooks import COMPARED_PER_TURN, GROUP, rule_matches, selector_matches
from trimtab.server.auth.authorize import Authorizer
from trimtab.server.request import large_objects
from trimtab.server.resources import ResourceCatalogue
from trimtab.server.storage.object_codec import labels_of
from trimtab.store.decoded_entries import DecodedEntries
from trimtab.store.keys import object_key, resource_prefix
from trimtab.store.store import Store

_POLICIES = resource_prefix(GROUP, "validatingadmissionpolicies")
_BINDINGS = resource_prefix(GROUP, "validatingadmissionpolicybindings")


_FAILURES = "validation.policy.admission.k8s.io/validation_failure"


class Violation(NamedTuple):
    """A validation that does not hold, or that has no value."""

    policy: str
    binding: str
    message: str
    reason: str = "Invalid"


def _failure_text(violations: Sequence[Violation], actions: Sequence[str]) -> str:
    """Violations as the audit log of Kubernetes has them."""
    found = [
        {
            "message": one.message,
            "policy": one.policy,
            "binding": one.binding,
            "validationActions": list(actions),
        }
        for one in violations
    ]
    return orjson.dumps(found).decode()


class AdmissionPolicies:
    """A validating plugin; audit annotations, and violations with the action `Audit`, are kept for the audit log."""

    def __init__(self, store: Store, authorizer: Authorizer, catalogue: ResourceCatalogue) -> None:
        self._store = store
        self._authorizer = authorizer
        self._catalogue = catalogue
        self._expressions = PolicyExpressions()
        self._decoded = DecodedEntries()

    def handles(self, kind: Kind, operation: str) -> bool:
        """Nothing while no policy is bound, and never the policies, so that each can be deleted."""
        return kind.group != GROUP and bool(self._store.count(_BINDINGS))

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        async for policy, binding in self._bound_policies():
            if not self._matches(policy, binding, attributes, obj, old):
                continue
            actions = binding["spec"].get("validationActions") or ()
            violations = await self._violations(policy, binding, attributes, obj, old)
            if "Audit" in actions and violations:
                attributes.caller.annotate(_FAILURES, _failure_text(violations, actions))
            for violation in violations:
                if "Deny" in actions:
                    raise _denial(attributes, violation)
                if "Warn" in actions:
                    attributes.caller.warn(
                        f"Validation failed for ValidatingAdmissionPolicy '{violation.policy}' "
                        f"with binding '{violation.binding}': {violation.message}"
                    )

    async def _bound_policies(self) -> AsyncIterator[tuple[Raw, Raw]]:
        """Every binding and its policy; while there are many, others take turns."""
        for number, entry in enumerate(self._store.list(_BINDINGS).entries, 1):
            if number % COMPARED_PER_TURN == 0:
                await asyncio.sleep(0)
            binding = self._decoded.decode(entry)
            policy = self._store.get(f"{_POLICIES}{binding['spec'].get('policyName')}")
            if policy is not None:
                yield self._decoded.decode(policy), binding

    # matching

    def _matches(self, policy: Raw, binding: Raw, attributes: Attributes, obj: Raw | None, old: Raw | None) -> bool:
        constraints = policy["spec"].get("matchConstraints") or {}
        if not self._resources_match(constraints, attributes, obj, old):
            return False
        further = binding["spec"].get("matchResources")
        return further is None or self._resources_match(further, attributes, obj, old)

    def _resources_match(self, match: Raw, attributes: Attributes, obj: Raw | None, old: Raw | None) -> bool:
        rules = match.get("resourceRules")
        if rules and not any(_named_rule_matches(rule, attributes) for rule in rules):
            return False
        if any(_named_rule_matches(rule, attributes) for rule in match.get("excludeResourceRules") or ()):
            return False
        states = [one for one in (obj, old) if one is not None]
        selector = match.get("objectSelector")
        if selector and not any(selector_matches(selector, _labels(one)) for one in states):
            return False
        selector = match.get("namespaceSelector")
        if not selector:
            return True
        if attributes.where.served.storage == "namespaces":
            return any(selector_matches(selector, _labels(one)) for one in states)
        namespace = self._namespace_entry(attributes)
        return not attributes.where.namespace or selector_matches(selector, labels_of(namespace) if namespace else {})

    def _namespace_entry(self, attributes: Attributes) -> bytes | None:
        entry = self._store.get(object_key("", "namespaces", attributes.where.namespace))
        return entry.value if entry is not None else None

    # evaluation

    async def _violations(
        self, policy: Raw, binding: Raw, attributes: Attributes, obj: Raw | None, old: Raw | None
    ) -> list[Violation]:
        names = policy["metadata"]["name"], binding["metadata"]["name"]
        try:
            parameters = list(self._parameters(policy, binding, attributes))
        except PolicyError as error:
            return [Violation(*names, str(error))]
        namespace = self._namespace_entry(attributes) if attributes.where.namespace else None
        values = {
            "object": obj,
            "oldObject": old,
            "request": admission_review(attributes, obj, old, "v1")["request"],
            "namespaceObject": orjson.loads(namespace) if namespace else None,
            "authorizer": checks_for(self._authorizer, attributes),
        }
        # An expression takes as long as its author likes, up to the limit of its cost. Writes of this process may run on
        # a virtual clock, which does not wait for a thread.
        is_request = bool(attributes.caller.verb)
        notes: list[tuple[str, str]] = []
        failures = await large_objects.run(is_request, self._all_failures, policy["spec"], values, parameters, notes)
        for key, text in dict.fromkeys(notes):
            attributes.caller.annotate(f"{names[0]}/{key}", text)
        return [Violation(*names, message, reason) for message, reason in failures]

    def _all_failures(
        self, spec: Raw, values: Mapping[str, Any], parameters: Sequence[Raw | None], notes: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """(message, reason) of every validation that does not hold for one of the parameters; annotations become notes."""
        self._expressions.start_budget()
        return [found for one in parameters for found in self._failures(spec, {**values, "params": one}, notes)]

    def _parameters(self, policy: Raw, binding: Raw, attributes: Attributes) -> Iterator[Raw | None]:
        kind, reference = policy["spec"].get("paramKind"), binding["spec"].get("paramRef")
        if kind is None or reference is None:
            yield None
            return
        served = self._catalogue.find_kind(kind["apiVersion"], kind["kind"])
        if served is None:
            raise PolicyError(
                f"failed to find resource referenced by paramKind: '{kind['apiVersion']}, {kind['kind']}'"
            )
        namespace = ""
        if served.kind.namespaced:
            namespace = reference.get("namespace") or attributes.where.namespace
        if name := reference.get("name"):
            entry = self._store.get(served.key(namespace, name))
            found = [] if entry is None else [entry]
        else:
            selector = reference.get("selector") or {}
            entries = self._store.list(served.collection_prefix(namespace)).entries
            found = [one for one in entries if selector_matches(selector, labels_of(one.value))]
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise PolicyError("no params found for policy binding with `Deny` parameterNotFoundAction")
        for one in found:
            yield orjson.loads(one.value)

    def _failures(
        self, spec: Raw, values: Mapping[str, Any], notes: list[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        """(message, reason) of every validation that does not hold."""
        ignores = spec.get("failurePolicy") == "Ignore"
        variables, errors = variable_values(self._expressions, spec.get("variables") or [], values)
        known = {**values, "variables": variables}
        try:
            if not all(self._holds(one["expression"], known) for one in spec.get("matchConditions") or ()):
                return
        except PolicyError as error:
            if not ignores:
                yield f"match condition failed: {error}", "Invalid"
            return
        for validation in spec.get("validations") or ():
            text = validation["expression"].strip()
            reason = validation.get("reason") or "Invalid"
            try:
                if not self._holds(text, known):
                    yield self._message(validation, known), reason
            except PolicyError as error:
                cause = next((why for name, why in errors.items() if f"variables.{name}" in text), str(error))
                if not ignores:
                    yield f"expression '{text}' resulted in error: {cause}", reason
        for annotation in spec.get("auditAnnotations") or ():
            text = annotation["valueExpression"].strip()
            try:
                value = self._expressions.evaluate(text, known)
            except PolicyError as error:
                if not ignores:
                    yield f"expression '{text}' resulted in error: {error}", "Invalid"
                continue
            if isinstance(value, str) and value.strip():
                notes.append((annotation["key"], value.strip()))

    def _holds(self, text: str, values: Mapping[str, Any]) -> bool:
        return self._expressions.evaluate(text, values) is True

    def _message(self, validation: Raw, values: Mapping[str, Any]) -> str:
        if expression := validation.get("messageExpression"):
            try:
                found = self._expressions.evaluate(expression, values)
                if isinstance(found, str) and found.strip() and "\n" not in found:
                    return found
            except PolicyError:
                pass  # the other message says what is wrong
        return validation.get("message") or f"failed expression: {validation['expression'].strip()}"


def _labels(obj: Raw) -> Raw:
    return (obj.get("metadata") or {}).get("labels") or {}


def _named_rule_matches(rule: Raw, attributes: Attributes) -> bool:
    where = attributes.where
    names = rule.get("resourceNames")
    if names and where.name not in names:
        return False
    scope = "Namespaced" if where.served.kind.namespaced else "Cluster"
    if rule.get("scope", "*") not in ("*", scope):
        return False
    resource = f"{where.served.resource}/{where.subresource}" if where.subresource else where.served.resource
    return rule_matches(rule, attributes.operation, where.served.group, where.served.version, resource)


def _denial(attributes: Attributes, violation: Violation) -> ApiError:
    where = attributes.where
    message = (
        f"ValidatingAdmissionPolicy '{violation.policy}' with binding '{violation.binding}' "
        f"denied request: {violation.message}"
    )
    refused = api_errors.forbidden(where.served.resource, where.served.group, where.name, message)
    if violation.reason == "Forbidden":
        return refused
    return Invalid(refused.message, kind=where.served.resource, group=where.served.group, name=where.name)
