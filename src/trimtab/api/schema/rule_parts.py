"""Schema keywords and CEL rules that several kinds share."""

from collections.abc import Mapping

from trimtab.api.value import Raw

LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_NAME_PATTERN = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])$"
LABEL_VALUE: Raw = {"pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", "maxLength": 63}
QUALIFIED_NAME: Raw = {"pattern": QUALIFIED_NAME_PATTERN, "maxLength": 317}
JSON_POINTER: Raw = {"pattern": "^(/([^/~]|~[01])*)*$"}
NOT_EMPTY: Raw = {"minLength": 1}
_SELECTOR_REQUIREMENT: Raw = {
    "anyOf": [
        {
            "properties": {"operator": {"enum": ["In", "NotIn"]}, "values": {"minItems": 1}},
            "required": ["values"],
        },
        {"properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}, "values": {"maxItems": 0}}},
    ]
}


def selector_validation(path: str) -> Mapping[str, Raw]:
    """The syntax of a label selector."""
    return {
        f"{path}.matchLabels.*": LABEL_VALUE,
        f"{path}.matchExpressions.*": _SELECTOR_REQUIREMENT,
        f"{path}.matchExpressions.*.key": QUALIFIED_NAME,
        f"{path}.matchExpressions.*.values.*": LABEL_VALUE,
    }


def cel_rules(*rules: tuple[str, str]) -> Raw:
    """Rules of one node of a schema, each with its message."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def cel_rule(rule: str, message: str) -> Raw:
    return cel_rules((rule, message))
