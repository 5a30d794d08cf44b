"""What kube-apiserver rejects in FlowSchemas and PriorityLevelConfigurations."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from trimtab.api.field_errors import forbidden, invalid, not_supported, required
from trimtab.api.names import label_faults, subdomain_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_PRECEDENCE = 10000
_MAX_QUEUES = 10_000_000
_MAX_ENTROPY_BITS = 60
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}
_EVERYBODY: list[Raw] = [
    {"kind": "Group", "group": {"name": name}} for name in ("system:unauthenticated", "system:authenticated")
]
_EVERYTHING: Raw = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
FIXED_SCHEMAS: dict[str, Raw] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [{"subjects": [{"kind": "Group", "group": {"name": "system:masters"}}], **_EVERYTHING}],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": _MAX_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": _EVERYBODY, **_EVERYTHING}],
    },
}
"""The specs of the FlowSchemas that always exist and may not change."""
FIXED_LEVELS: dict[str, Raw] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0},
    },
}
"""The specs of the priority levels that always exist; of `exempt`, the part `exempt` may change."""


# flow schemas


def check_flow_schema(new: Raw, old: Raw | None) -> Sequence[Cause]:
    name, spec = object_at(new, "metadata").get("name", ""), object_at(new, "spec")
    found = [*_check_precedence(name, spec.get("matchingPrecedence", 0)), *_check_distinguisher(spec)]
    level = object_at(spec, "priorityLevelConfiguration").get("name", "")
    if not level:
        found.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
    found += [
        invalid("spec.priorityLevelConfiguration.name", level, fault) for fault in subdomain_faults(level) if level
    ]
    for index, rule in enumerate(spec.get("rules") or ()):
        found += _check_rules(rule, f"spec.rules[{index}]")
    fixed = FIXED_SCHEMAS.get(name)
    if fixed is not None and spec != fixed:
        found.append(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    return found


def _check_precedence(name: str, precedence: int) -> Iterator[Cause]:
    field = "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid(field, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        yield invalid(field, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and name != "exempt":
        yield invalid(field, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")


def _check_distinguisher(spec: Raw) -> Iterator[Cause]:
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        yield not_supported("spec.distinguisherMethod.type", method.get("type", ""), ["ByNamespace", "ByUser"])


def _check_rules(rule: Raw, field: str) -> Iterator[Cause]:
    subjects = rule.get("subjects") or []
    if not subjects:
        yield required(f"{field}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _check_subject(subject, f"{field}.subjects[{index}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(field, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, resource_rule in enumerate(rule.get("resourceRules") or ()):
        yield from _check_resource_rule(resource_rule, f"{field}.resourceRules[{index}]")
    for index, path_rule in enumerate(rule.get("nonResourceRules") or ()):
        yield from _check_path_rule(path_rule, f"{field}.nonResourceRules[{index}]")


def _check_subject(subject: Raw, field: str) -> Iterator[Cause]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{field}.kind", kind, sorted(_SUBJECTS))
        return
    for other, key in _SUBJECTS.items():
        if other != kind and subject.get(key) is not None:
            yield forbidden(f"{field}.{key}", f"{key} is forbidden when subject kind is not '{other}'")
    key = _SUBJECTS[kind]
    named = subject.get(key)
    if named is None:
        yield required(f"{field}.{key}", f"{key} is required when subject kind is '{kind}'")
        return
    if not named.get("name"):
        yield required(f"{field}.{key}.name")
    if kind == "ServiceAccount":
        yield from _check_service_account(named, f"{field}.{key}")


def _check_service_account(account: Raw, field: str) -> Iterator[Cause]:
    name, namespace = account.get("name", ""), account.get("namespace", "")
    if name and name != "*":
        yield from (invalid(f"{field}.name", name, fault) for fault in subdomain_faults(name))
    if not namespace:
        yield required(f"{field}.namespace", "must specify namespace for service account")
    elif namespace != "*":
        yield from (invalid(f"{field}.namespace", namespace, fault) for fault in label_faults(namespace))


def _check_list(values: Sequence[str], field: str, missing: str, things: str) -> Iterator[Cause]:
    if not values:
        yield required(field, missing)
    elif "*" in values and len(values) > 1:
        yield invalid(field, values, f"if '*' is present, must not specify other {things}")


def _check_resource_rule(rule: Raw, field: str) -> Iterator[Cause]:
    verbs, namespaces = rule.get("verbs") or [], rule.get("namespaces") or []
    yield from _check_list(verbs, f"{field}.verbs", "verbs must contain at least one value", "verbs")
    if verbs and "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield not_supported(f"{field}.verbs", verbs, _VERBS)
    missing = "resource rules must supply at least one api group"
    yield from _check_list(rule.get("apiGroups") or [], f"{field}.apiGroups", missing, "api groups")
    missing = "resource rules must supply at least one resource"
    yield from _check_list(rule.get("resources") or [], f"{field}.resources", missing, "resources")
    if namespaces or not rule.get("clusterScope"):
        missing = "resource rules that are not cluster scoped must supply at least one namespace"
        yield from _check_list(namespaces, f"{field}.namespaces", missing, "namespaces")
    for index, namespace in enumerate(namespaces if namespaces != ["*"] else ()):
        for fault in label_faults(namespace) if namespace != "*" else ():
            yield invalid(f"{field}.namespaces[{index}]", namespace, fault)


def _check_path_rule(rule: Raw, field: str) -> Iterator[Cause]:
    verbs, paths = rule.get("verbs") or [], rule.get("nonResourceURLs") or []
    yield from _check_list(verbs, f"{field}.verbs", "verbs must contain at least one value", "verbs")
    missing = "nonResourceURLs must contain at least one value"
    yield from _check_list(paths, f"{field}.nonResourceURLs", missing, "non-resource URLs")
    for index, path in enumerate(paths if "*" not in paths else ()):
        if fault := _path_fault(path):
            yield invalid(f"{field}.nonResourceURLs[{index}]", path, fault)


def _path_fault(path: str) -> str:
    if not path:
        return "must not be empty"
    if not path.startswith("/"):
        return "must start with slash"
    if " " in path:
        return "must not contain white-space"
    if "//" in path:
        return "must not contain double slash"
    star = path.find("*")
    return (
        "wildcard can only do suffix matching" if (star >= 0 and not path.endswith("/*")) or path.count("*") > 1 else ""
    )


# priority levels


def check_priority_level(new: Raw, old: Raw | None) -> Sequence[Cause]:
    name, spec = object_at(new, "metadata").get("name", ""), object_at(new, "spec")
    found = [*_check_level_type(name, spec)]
    if spec.get("type") == "Limited" and spec.get("limited") is not None:
        found += _check_limited(spec["limited"], "spec.limited")
    if spec.get("exempt") is not None:
        found += _check_shares(spec["exempt"], "spec.exempt")
    found += _check_fixed_level(name, spec)
    return found


def _check_fixed_level(name: str, spec: Raw) -> Iterator[Cause]:
    fixed = FIXED_LEVELS.get(name)
    if fixed is None:
        return
    if name != "exempt":
        if spec != fixed:
            yield invalid("spec", spec, f"spec of '{name}' must equal the fixed value")
    elif {**spec, "exempt": None} != {**fixed, "exempt": None}:
        yield invalid("spec", spec, f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value")


def _check_level_type(name: str, spec: Raw) -> Iterator[Cause]:
    type_ = spec.get("type", "")
    if (name == "exempt") != (type_ == "Exempt"):
        yield invalid("spec.type", type_, "type must be 'Exempt' if and only if name is 'exempt'")
    if type_ not in ("Exempt", "Limited"):
        yield not_supported("spec.type", type_, ["Exempt", "Limited"])
        return
    if type_ == "Exempt":
        if spec.get("limited") is not None:
            yield forbidden("spec.limited", "must be nil if the type is not Limited")
        return
    if spec.get("exempt") is not None:
        yield forbidden("spec.exempt", "must be nil if the type is Limited")
    if spec.get("limited") is None:
        yield required("spec.limited", "must not be empty when type is Limited")


def _check_shares(given: Raw, field: str) -> Iterator[Cause]:
    shares, lendable = given.get("nominalConcurrencyShares") or 0, given.get("lendablePercent") or 0
    if shares < 0:
        yield invalid(f"{field}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= lendable <= 100:
        yield invalid(f"{field}.lendablePercent", lendable, "must be between 0 and 100, inclusive")


def _check_limited(limited: Raw, field: str) -> Iterator[Cause]:
    yield from _check_shares(limited, field)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        yield invalid(f"{field}.borrowingLimitPercent", borrowing, "if specified, must be a non-negative integer")
    response = limited.get("limitResponse") or {}
    type_, queuing = response.get("type", ""), response.get("queuing")
    if type_ == "Reject" and queuing is not None:
        text = "must be nil if limited.limitResponse.type is not Limited"
        yield forbidden(f"{field}.limitResponse.queuing", text)
    elif type_ == "Queue" and queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        yield required(f"{field}.limitResponse.queuing", text)
    elif type_ == "Queue":
        yield from _check_queuing(queuing, f"{field}.limitResponse.queuing")
    elif type_ != "Reject":
        yield not_supported(f"{field}.limitResponse.type", type_, ["Queue", "Reject"])


def _check_queuing(queuing: Any, field: str) -> Iterator[Cause]:
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    for key in ("queueLengthLimit", "queues", "handSize"):
        if queuing.get(key, 0) <= 0:
            yield invalid(f"{field}.{key}", queuing.get(key, 0), "must be positive")
    if queues > _MAX_QUEUES:
        yield invalid(f"{field}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if hand > queues > 0:
        yield invalid(f"{field}.handSize", hand, f"should not be greater than queues ({queues})")
    elif 0 < hand <= queues <= _MAX_QUEUES and _entropy_bits(queues, hand) > _MAX_ENTROPY_BITS:
        text = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_MAX_ENTROPY_BITS}"
        )
        yield invalid(f"{field}.handSize", hand, text)


def _entropy_bits(deck: int, hand: int) -> int:
    """Bits of a hash that deals a hand; hands that need more than the limit are not computed to the end."""
    bits = 0.0
    for index in range(hand):
        bits += math.log2(deck - index)
        if bits > _MAX_ENTROPY_BITS:
            break
    return math.ceil(bits)
