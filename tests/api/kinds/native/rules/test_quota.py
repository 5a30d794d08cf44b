import pytest

from api.kinds.native.native_validation import validation_error
from trimtab.api.value import Raw

QUOTA: Raw = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}


def test_valid_quota_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "ResourceQuota", QUOTA) == ""
    assert validation_error("v1", "ResourceQuota", QUOTA, QUOTA) == ""


def test_unknown_resources_are_rejected() -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"gpus": "1"}}}
    assert validation_error("v1", "ResourceQuota", quota) == (
        '[spec.hard[gpus]: Invalid value: "gpus": must be a standard resource type or fully qualified, spec.hard[gpus]: '
        'Invalid value: "gpus": must be a standard resource for quota]'
    )


def test_scopes_are_immutable() -> None:
    scoped = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
    assert validation_error("v1", "ResourceQuota", scoped, QUOTA) == (
        'spec.scopes: Invalid value: ["BestEffort"]: field is immutable'
    )


@pytest.mark.parametrize(
    ("requirement", "error"),
    [
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, ""),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, ""),
        ({"scopeName": "BestEffort", "operator": "Exists"}, ""),
        (
            {"scopeName": "PriorityClass", "operator": "In"},
            "values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        (
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["high"]},
            "values: Invalid value: [\"high\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        (
            {"scopeName": "PriorityClass", "operator": "Is", "values": ["high"]},
            'operator: Invalid value: "Is": not a valid selector operator',
        ),
        ({"scopeName": "Class", "operator": "Exists"}, 'scopeName: Invalid value: "Class": unsupported scope'),
        (
            {"scopeName": "BestEffort", "operator": "In", "values": ["a"]},
            (
                "operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            ),
        ),
    ],
)
def test_scope_selector_requirements_are_checked(requirement: Raw, error: str) -> None:
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}}
    found = validation_error("v1", "ResourceQuota", {"metadata": {"name": "q"}, "spec": spec})
    assert found == (f"spec.scopeSelector.matchExpressions.{error}" if error else "")


@pytest.mark.parametrize(
    ("hard", "scopes", "error"),
    [
        ({"pods": "1"}, ["BestEffort"], ""),
        ({"requests.cpu": "1"}, ["NotBestEffort", "Terminating"], ""),
        ({"pods": "1"}, ["Other"], 'spec.scopes: Invalid value: ["Other"]: unsupported scope'),
        (
            {"pods": "1"},
            ["BestEffort", "NotBestEffort"],
            'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
        ),
        (
            {"requests.cpu": "1"},
            ["BestEffort"],
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
    ],
)
def test_scopes_are_checked(hard: Raw, scopes: list[str], error: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": scopes}}
    assert validation_error("v1", "ResourceQuota", quota) == error


def limit_range(**item: object) -> dict[str, object]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [item]}}


def test_limits_of_a_pod_have_no_defaults() -> None:
    assert validation_error("v1", "LimitRange", limit_range(type="Pod", default={"cpu": "1"})) == (
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"
    )
    assert validation_error("v1", "LimitRange", limit_range(type="Pod", max={"cpu": "1"})) == ""


def test_bounds_of_a_limit_range_fit_together() -> None:
    assert validation_error("v1", "LimitRange", limit_range(type="Pod", min={"cpu": "2"}, max={"cpu": "1"})) == (
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'
    )
    item = limit_range(type="Container", defaultRequest={"cpu": "2"}, default={"cpu": "1"})
    assert validation_error("v1", "LimitRange", item) == (
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": '
        "default request value 2 is greater than default limit value 1"
    )
    item = limit_range(type="Pod", min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"})
    assert validation_error("v1", "LimitRange", item).endswith("ratio 3 is greater than max/min = 2.000000")
    item = limit_range(type="Container", default={"x.dev/gpu": "2"}, defaultRequest={"x.dev/gpu": "1"})
    assert "must equal to defaultRequest value 1 in x.dev/gpu" in validation_error("v1", "LimitRange", item)


def test_resources_and_types_of_a_limit_range_are_known() -> None:
    assert validation_error("v1", "LimitRange", limit_range(type="Node")) == (
        'spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified'
    )
    assert validation_error("v1", "LimitRange", limit_range(type="Pod", max={"storage": "1Gi"})) == (
        'spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers'
    )
    assert validation_error("v1", "LimitRange", limit_range(type="PersistentVolumeClaim", max={"cpu": "1"})) == (
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"
    )
    twice = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}
    assert validation_error("v1", "LimitRange", twice) == 'spec.limits[1].type: Duplicate value: "Pod"'
