"""Versions and conversions of CustomResourceDefinitions that kube-apiserver 1.32 refuses, with its messages."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.extensions import check_custom_resource_definition

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "flag": {"type": "boolean"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                **{f"p{number}": {"type": "string"} for number in range(9)},
            },
        }
    },
}


def definition(conversion: Any = None, **version: Any) -> dict[str, Any]:
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}, **version}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec: dict[str, Any] = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [first]}
    if conversion is not None:
        spec["conversion"] = conversion
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


def faults(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in check_custom_resource_definition(new, old)]


def column(**given: str) -> dict[str, Any]:
    return {"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ".x", **given}]}


def scale(**given: str) -> dict[str, Any]:
    paths = {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r", **given}
    return {"subresources": {"scale": paths}}


def fields(*paths: str) -> dict[str, Any]:
    return {"selectableFields": [{"jsonPath": path} for path in paths]}


@pytest.mark.parametrize(
    "version",
    [
        column(),
        column(type="date", format="date-time"),
        column(jsonPath=".status.conditions[?(@.type=='Ready')].status"),
        scale(),
        scale(labelSelectorPath=".spec.selector"),
        fields(".spec.a", ".spec.flag", ".spec.count"),
        {"deprecated": True, "deprecationWarning": "use v2"},
    ],
)
def test_valid_versions_are_accepted(version: dict[str, Any]) -> None:
    assert faults(definition(**version)) == []


TYPES = "must be one of boolean,date,integer,number,string"
WARNING = "spec.versions[0].deprecationWarning"


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        (column(name=""), "spec.additionalPrinterColumns[0].name: Required value"),
        (column(type=""), f"spec.additionalPrinterColumns[0].type: Required value: {TYPES}"),
        (column(type="text"), f'spec.additionalPrinterColumns[0].type: Invalid value: "text": {TYPES}'),
        (
            column(format="zz"),
            (
                'spec.additionalPrinterColumns[0].format: Invalid value: "zz": '
                "must be one of byte,date,date-time,double,float,int32,int64,password"
            ),
        ),
        (column(jsonPath=""), "spec.additionalPrinterColumns[0].JSONPath: Required value"),
        (
            column(jsonPath="x"),
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting with .',
        ),
        (scale(specReplicasPath=""), "spec.subresources.scale.specReplicasPath: Required value"),
        (
            scale(specReplicasPath="spec.r"),
            (
                'spec.subresources.scale.specReplicasPath: Invalid value: "spec.r": '
                "must be a simple json path starting with ."
            ),
        ),
        (
            scale(statusReplicasPath=".spec.r"),
            'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.r": should be a json path under .status',
        ),
        (
            scale(labelSelectorPath=".x"),
            (
                'spec.subresources.scale.labelSelectorPath: Invalid value: ".x": '
                "should be a json path under either .spec or .status"
            ),
        ),
        (fields(""), "spec.selectableFields[0].jsonPath: Required value"),
        (fields(".spec.a", ".spec.a"), 'spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a"'),
        (
            fields(".metadata.name"),
            (
                'spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": '
                "is an invalid path: does not refer to a valid field"
            ),
        ),
        (
            fields(".spec.l[0]"),
            (
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec.l[0]": '
                "is an invalid path: array notation is not allowed"
            ),
        ),
        (
            fields("spec"),
            (
                'spec.selectableFields[0].jsonPath: Invalid value: "spec": is an invalid path: '
                "expected [ or . but got: spec"
            ),
        ),
        (
            fields(".spec.ratio"),
            (
                'spec.selectableFields[0].jsonPath: Invalid value: ".spec.ratio": must point to a field of type string, '
                "boolean or integer. Enum string fields and strings with formats are allowed."
            ),
        ),
        (
            fields(*(f".spec.p{number}" for number in range(9))),
            "spec.selectableFields: Too many: 9: must have at most 8 items",
        ),
        ({"deprecationWarning": "x"}, f'{WARNING}: Invalid value: "x": can only be set for deprecated versions'),
        (
            {"deprecated": True, "deprecationWarning": ""},
            f'{WARNING}: Invalid value: "": must not be an empty string',
        ),
        (
            {"deprecated": True, "deprecationWarning": "a\nb"},
            (
                f'{WARNING}: Invalid value: "a\\nb": must only contain printable UTF-8 characters; '
                "non-printable character found at index 1"
            ),
        ),
    ],
)
def test_invalid_versions_are_refused(version: dict[str, Any], fault: str) -> None:
    assert faults(definition(**version)) == [fault]


def test_fault_of_one_version_names_it() -> None:
    wrong = definition(**column(type="text"))
    wrong["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    assert faults(wrong) == [f'spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": {TYPES}']


def test_definition_that_was_stored_before_a_check_existed_still_gets_its_status() -> None:
    stored = definition(**column(type="text"))
    assert faults({**stored, "status": {"storedVersions": ["v1"]}}, stored) == []


CLIENT, REVIEWS = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"


def webhook(versions: list[str], **client: Any) -> dict[str, Any]:
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": versions, "clientConfig": client}}


@pytest.mark.parametrize(
    ("conversion", "found"),
    [
        ({"strategy": "None"}, []),
        (webhook(["v1"], url="https://example.com/convert"), []),
        (
            {"strategy": "Other"},
            ['spec.conversion.strategy: Unsupported value: "Other": supported values: "None", "Webhook"'],
        ),
        (
            {"strategy": "Webhook"},
            [
                f"{CLIENT}: Required value: required when strategy is set to Webhook",
                f"{REVIEWS}: Required value",
            ],
        ),
        (
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            [f"{REVIEWS}: Forbidden: should not be set when strategy is not set to Webhook"],
        ),
        (
            webhook(["v9"], url="http://example.com"),
            [
                (
                    f"{CLIENT}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                    "desired format: https://host[/path]"
                ),
                f'{REVIEWS}: Invalid value: ["v9"]: must include at least one of v1, v1beta1',
            ],
        ),
        (
            webhook(["v1", "v1"], url="https://example.com"),
            [f'{REVIEWS}[1]: Invalid value: "v1": duplicate version'],
        ),
        (
            webhook(["v1"], url="https://example.com", service={"name": "a", "namespace": "b"}),
            [f"{CLIENT}: Required value: exactly one of url or service is required"],
        ),
    ],
)
def test_conversions(conversion: dict[str, Any], found: list[str]) -> None:
    assert faults(definition(conversion)) == found
