import pytest

from api.kinds.native.native_validation import decode_with_defaults, validation_error, with_change
from trimtab.api.kinds.native.rules.flow_control import FIXED_LEVELS, FIXED_SCHEMAS
from trimtab.api.value import Raw

API = "flowcontrol.apiserver.k8s.io/v1"
RULE: Raw = {
    "subjects": [{"kind": "User", "user": {"name": "ann"}}],
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
}
SCHEMA: Raw = {
    "metadata": {"name": "f"},
    "spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 500, "rules": [RULE]},
}
QUEUING: Raw = {"queues": 64, "handSize": 6, "queueLengthLimit": 50}
LEVEL: Raw = {
    "metadata": {"name": "p"},
    "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": QUEUING}}},
}
RULES = ("spec", "rules", 0)
LIMITED = ("spec", "limited")
FIELD = "spec.limited.limitResponse.queuing"


def test_valid_objects_are_accepted() -> None:
    assert validation_error(API, "FlowSchema", SCHEMA) == ""
    assert validation_error(API, "PriorityLevelConfiguration", LEVEL) == ""


def test_missing_fields_get_defaults() -> None:
    schema = with_change(SCHEMA, "spec", "matchingPrecedence", to=None)
    assert decode_with_defaults(API, "FlowSchema", schema)["spec"]["matchingPrecedence"] == 1000
    level = with_change(LEVEL, *LIMITED, "limitResponse", "queuing", to={})
    limited = decode_with_defaults(API, "PriorityLevelConfiguration", level)["spec"]["limited"]
    assert (limited["nominalConcurrencyShares"], limited["lendablePercent"]) == (30, 0)
    assert limited["limitResponse"]["queuing"] == {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("spec", "matchingPrecedence"), -1, "spec.matchingPrecedence: Invalid value: -1: must be a positive value"),
        (
            ("spec", "matchingPrecedence"),
            10001,
            "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
        ),
        (
            ("spec", "matchingPrecedence"),
            1,
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ),
        (
            ("spec", "priorityLevelConfiguration"),
            {},
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ),
        (
            ("spec", "distinguisherMethod"),
            {"type": "ByColour"},
            'spec.distinguisherMethod.type: Unsupported value: "ByColour": supported values: "ByNamespace", "ByUser"',
        ),
        (
            (*RULES, "subjects"),
            [],
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
        ),
        (
            (*RULES, "subjects"),
            [{"kind": "Group", "user": {"name": "x"}, "group": {"name": "y"}}],
            "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
        ),
        (
            (*RULES, "subjects"),
            [{"kind": "ServiceAccount", "serviceAccount": {"name": "a"}}],
            "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account",
        ),
        (
            (*RULES, "subjects"),
            [{"kind": "Robot"}],
            (
                "spec.rules[0].subjects[0].kind: Unsupported value: "
                '"Robot": supported values: "Group", "ServiceAccount", "User"'
            ),
        ),
        (
            (*RULES, "resourceRules"),
            None,
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ),
        (
            (*RULES, "resourceRules", 0, "namespaces"),
            None,
            (
                "spec.rules[0].resourceRules[0].namespaces: Required value: "
                "resource rules that are not cluster scoped must supply at least one namespace"
            ),
        ),
        (
            (*RULES, "resourceRules", 0, "apiGroups"),
            ["*", "apps"],
            (
                "spec.rules[0].resourceRules[0].apiGroups: "
                """Invalid value: ["*","apps"]: if '*' is present, must not specify other api groups"""
            ),
        ),
        (
            (*RULES, "nonResourceRules"),
            [{"verbs": ["get"], "nonResourceURLs": ["x"]}],
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "x": must start with slash',
        ),
    ],
)
def test_invalid_flow_schema_is_rejected(path: tuple[str | int, ...], value: object, text: str) -> None:
    assert validation_error(API, "FlowSchema", with_change(SCHEMA, *path, to=value)) == text


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (
            ("spec", "exempt"),
            {},
            "spec.exempt: Forbidden: must be nil if the type is Limited",
        ),
        ((*LIMITED,), None, "spec.limited: Required value: must not be empty when type is Limited"),
        (
            (*LIMITED, "lendablePercent"),
            101,
            "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
        ),
        (
            (*LIMITED, "limitResponse", "type"),
            "Reject",
            f"{FIELD}: Forbidden: must be nil if limited.limitResponse.type is not Limited",
        ),
        (
            (*LIMITED, "limitResponse", "queuing"),
            None,
            f"{FIELD}: Required value: must not be empty if limited.limitResponse.type is Limited",
        ),
        (
            (*LIMITED, "limitResponse", "queuing", "handSize"),
            65,
            f"{FIELD}.handSize: Invalid value: 65: should not be greater than queues (64)",
        ),
        (
            (*LIMITED, "limitResponse", "queuing", "handSize"),
            12,
            (
                f"{FIELD}.handSize: Invalid value: 12: "
                "required entropy bits of deckSize 64 and handSize 12 should not be greater than 60"
            ),
        ),
    ],
)
def test_invalid_priority_level_is_rejected(path: tuple[str | int, ...], value: object, text: str) -> None:
    assert validation_error(API, "PriorityLevelConfiguration", with_change(LEVEL, *path, to=value)) == text


def test_only_the_level_named_exempt_may_be_exempt() -> None:
    level = {"metadata": {"name": "p"}, "spec": {"type": "Exempt"}}
    assert validation_error(API, "PriorityLevelConfiguration", level) == (
        "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'"
    )


def test_mandatory_objects_keep_their_fixed_values() -> None:
    for name, spec in FIXED_SCHEMAS.items():
        schema = {"metadata": {"name": name}, "spec": spec}
        assert validation_error(API, "FlowSchema", schema) == ""
        changed = with_change(schema, "spec", "rules", to=[RULE])
        assert f"spec of '{name}' must equal the fixed value" in validation_error(API, "FlowSchema", changed)
    level = {"metadata": {"name": "catch-all"}, "spec": FIXED_LEVELS["catch-all"]}
    assert validation_error(API, "PriorityLevelConfiguration", level) == ""
    more = with_change(level, *LIMITED, "nominalConcurrencyShares", to=500)
    assert "must equal the fixed value" in validation_error(API, "PriorityLevelConfiguration", more)
    exempt = {"metadata": {"name": "exempt"}, "spec": FIXED_LEVELS["exempt"]}
    shares = with_change(exempt, "spec", "exempt", "nominalConcurrencyShares", to=10)
    assert validation_error(API, "PriorityLevelConfiguration", shares) == ""
