"""Policies of Jobs that kube-apiserver 1.32 refuses, with its messages."""

from typing import Any

import pytest

from trimtab.api.kinds.native.rules.job_policies import check_job_policies

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}}
INDEXED = {"completionMode": "Indexed", "completions": 3}


def faults(**spec: Any) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in check_job_policies({"template": TEMPLATE, **spec}, "spec")]


def failure_rule(action: str = "FailJob", **rule: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": action, **rule}]}}


def exit_codes(*values: int, operator: str = "In", **rest: Any) -> dict[str, Any]:
    return {"onExitCodes": {"operator": operator, "values": list(values), **rest}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3, **failure_rule("FailIndex", **exit_codes(1))},
        {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0,1-2", "succeededCount": 3}]}},
        failure_rule(**exit_codes(0, 1, operator="NotIn", containerName="i")),
        failure_rule("Ignore", onPodConditions=[{"type": "DisruptionTarget", "status": "True"}]),
        {"podReplacementPolicy": "TerminatingOrFailed", "managedBy": "acme.io/foo"},
    ],
)
def test_valid_policies_are_accepted(spec: dict[str, Any]) -> None:
    assert faults(**spec) == []


RULE = "spec.podFailurePolicy.rules[0]"
SUCCESS = "spec.successPolicy.rules[0]"


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        (
            {**INDEXED, "maxFailedIndexes": 1},
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
        ),
        (
            failure_rule("FailIndex", **exit_codes(1)),
            f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        ),
        (
            failure_rule(**exit_codes(0)),
            f"{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (failure_rule(**exit_codes(2, 1)), f"{RULE}.onExitCodes.values: Invalid value: [2,1]: must be ordered"),
        (
            failure_rule(**exit_codes(1, containerName="other")),
            (
                f'{RULE}.onExitCodes.containerName: Invalid value: "other": '
                "must be one of the container or initContainer names in the pod template"
            ),
        ),
        (
            failure_rule(),
            f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{}]}},
            f"{SUCCESS}: Required value: at least one of succeededCount or succeededIndexes must be specified",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "5-3"}]}},
            f'{SUCCESS}.succeededIndexes: Invalid value: "5-3": error parsing succeededIndexes: too large index: "5"',
        ),
        (
            {"managedBy": "bad"},
            'spec.managedBy: Invalid value: "bad": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {"podReplacementPolicy": "TerminatingOrFailed", **failure_rule(**exit_codes(1))},
            'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
        ),
    ],
)
def test_invalid_policies_are_refused(spec: dict[str, Any], fault: str) -> None:
    assert faults(**spec) == [fault]


def test_success_policy_needs_indexes() -> None:
    (fault,) = faults(successPolicy={"rules": [{"succeededIndexes": "0"}]})
    assert fault.startswith("spec.successPolicy: ")
    assert fault.endswith("requires indexed completion mode")
