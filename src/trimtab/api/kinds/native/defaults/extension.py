"""Defaults of what extends the API server: webhooks, admission policies, definitions, services and flow control."""

from typing import Any

from trimtab.api.kinds.native.defaults.fill import fill_items, fill_member, set_missing
from trimtab.api.value import Raw

_QUEUING_DEFAULTS = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _webhook(webhook: Raw, **more: Any) -> Raw:
    webhook = set_missing(
        webhook,
        failurePolicy="Fail",
        matchPolicy="Equivalent",
        namespaceSelector={},
        objectSelector={},
        timeoutSeconds=10,
        **more,
    )
    webhook = fill_items(webhook, "rules", lambda rule: set_missing(rule, scope="*"))
    return fill_member(webhook, "clientConfig", _client_config)


def _client_config(client: Raw) -> Raw:
    return fill_member(client, "service", lambda target: set_missing(target, port=443))


def validating_webhooks(obj: Raw) -> Raw:
    return fill_items(obj, "webhooks", _webhook)


def mutating_webhooks(obj: Raw) -> Raw:
    return fill_items(obj, "webhooks", lambda webhook: _webhook(webhook, reinvocationPolicy="Never"))


def _match_resources(given: Raw) -> Raw:
    def rule(one: Raw) -> Raw:
        return set_missing(one, scope="*")

    given = set_missing(given, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    return fill_items(fill_items(given, "resourceRules", rule), "excludeResourceRules", rule)


def validating_admission_policy(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        return fill_member(set_missing(spec, failurePolicy="Fail"), "matchConstraints", _match_resources)

    return fill_member(obj, "spec", fill)


def validating_admission_policy_binding(obj: Raw) -> Raw:
    return fill_member(obj, "spec", lambda spec: fill_member(spec, "matchResources", _match_resources))


def custom_resource_definition(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        spec = set_missing(spec, conversion={"strategy": "None"})
        spec = fill_member(spec, "conversion", conversion)
        return fill_member(spec, "names", names)

    def conversion(given: Raw) -> Raw:
        return fill_member(given, "webhook", lambda webhook: fill_member(webhook, "clientConfig", _client_config))

    def names(given: Raw) -> Raw:
        kind = given.get("kind", "")
        singular, list_kind = given.get("singular") or kind.lower(), given.get("listKind") or f"{kind}List"
        return {**given, "singular": singular, "listKind": list_kind} if kind else given

    return fill_member(obj, "spec", fill)


def api_service(obj: Raw) -> Raw:
    return fill_member(obj, "spec", _client_config)


def flow_schema(obj: Raw) -> Raw:
    spec = obj.get("spec")
    if not isinstance(spec, dict) or spec.get("matchingPrecedence"):
        return obj
    return {**obj, "spec": {**spec, "matchingPrecedence": 1000}}


def priority_level_configuration(obj: Raw) -> Raw:
    def fill(spec: Raw) -> Raw:
        if spec.get("type") == "Exempt":
            spec = set_missing(spec, exempt={})
        spec = fill_member(spec, "exempt", lambda e: set_missing(e, nominalConcurrencyShares=0, lendablePercent=0))
        return fill_member(spec, "limited", fill_limited)

    def fill_limited(given: Raw) -> Raw:
        given = set_missing(given, nominalConcurrencyShares=30, lendablePercent=0)
        return fill_member(given, "limitResponse", lambda response: fill_member(response, "queuing", fill_queuing))

    def fill_queuing(given: Raw) -> Raw:
        return {key: given.get(key) or number for key, number in _QUEUING_DEFAULTS.items()}

    return fill_member(obj, "spec", fill)
