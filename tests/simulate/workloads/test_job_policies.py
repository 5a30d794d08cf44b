from trimtab.api.kinds.native.pod import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from trimtab.api.value import Meta, Raw
from trimtab.simulate.workloads.job_policies import match_failure_policy, match_success_policy


def failed_pod(exit_code: int = 1, *conditions: str) -> Pod:
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code))
    return Pod(
        metadata=Meta(name="one", namespace="default"),
        status=PodStatus(
            phase="Failed",
            container_statuses=(ContainerStatus(name="main", state=ended),),
            conditions=tuple(PodCondition(type=one, status="True") for one in conditions),
        ),
    )


def policy(*rules: Raw) -> Raw:
    return {"podFailurePolicy": {"rules": list(rules)}}


def test_the_first_matching_rule_decides() -> None:
    spec = policy(
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}},
    )
    assert match_failure_policy(spec, failed_pod(42, "DisruptionTarget")).action == "Ignore"
    assert match_failure_policy(spec, failed_pod(7)).action == "FailIndex"
    assert match_failure_policy(spec, failed_pod(1)).action == "Count"
    assert match_failure_policy(spec, failed_pod(42)) == (
        "FailJob",
        "Container main for pod default/one failed with exit code 42 matching FailJob rule at index 1",
    )


def test_a_rule_for_a_container_ignores_the_others() -> None:
    spec = policy(
        {"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [1]}},
    )
    assert match_failure_policy(spec, failed_pod(1)).action == "Count"


def test_a_success_rule_holds_by_indexes_by_count_or_by_both() -> None:
    def spec(**rule: object) -> Raw:
        return {"successPolicy": {"rules": [{"succeededIndexes": "9"}, rule]}}

    assert match_success_policy(spec(succeededIndexes="0,2-3"), {0, 2, 3}) == "Matched rules at index 1"
    assert not match_success_policy(spec(succeededIndexes="0,2-3"), {0, 2})
    assert match_success_policy(spec(succeededIndexes="0-3", succeededCount=2), {0, 3, 7})
    assert not match_success_policy(spec(succeededIndexes="0-3", succeededCount=2), {3, 7})
    assert match_success_policy(spec(succeededCount=1), {5})
    assert not match_success_policy({}, {5})
