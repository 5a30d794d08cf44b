from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pod_builders import node, pod

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.decide.pods.affinity.affinity_terms import hashable_selector
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.policy import read_policy, run_cycle
from trimtab.decide.pods.preemption.preempt import PreemptionBudget
from trimtab.errors import InputError

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
NODES = [node("a", taints=["bad=yes:NoSchedule"]), node("b"), node("c")]


def policy_with_evictor(
    evictor: dict[str, Any], plugin: str = "RemovePodsViolatingNodeTaints", **args: Any
) -> dict[str, Any]:
    balances = plugin in ("LowNodeUtilization", "HighNodeUtilization", "RemovePodsViolatingTopologySpreadConstraint")
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "p",
                "pluginConfig": [{"name": "DefaultEvictor", "args": evictor}, {"name": plugin, "args": args}],
                "plugins": {"balance" if balances else "deschedule": {"enabled": [plugin]}},
            }
        ],
    }


def evicted_names(
    evictor: dict[str, Any],
    pods: list[Pod],
    profile: Profile = UPSTREAM,
    *,
    budgets: tuple[PreemptionBudget, ...] = (),
    **view_args: Any,
) -> list[str]:
    """Names of the pods that a policy evicts from a node whose taint none of them tolerates."""
    found = run_cycle(
        read_policy(policy_with_evictor(evictor)),
        ClusterView.of(NODES, pods, now=NOON, budgets=budgets, **view_args),
        profile,
    )
    return [one.pod.name for one in found.evictions]


def protection_args(*names: str, **config: Any) -> dict[str, Any]:
    return {"podProtections": {"extraEnabled": list(names), **({"config": config} if config else {})}}


def pod_with_claim(name: str, claim: str) -> Pod:
    return pod(name, on="a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def test_pods_with_resource_claims_are_protected_only_on_request() -> None:
    gpu, plain = pod("gpu", on="a", resourceClaims=[{"name": "gpu", "resourceClaimName": "x"}]), pod("plain", on="a")
    assert evicted_names({}, [gpu, plain]) == ["gpu", "plain"]
    assert evicted_names(protection_args("PodsWithResourceClaims"), [gpu, plain]) == ["plain"]


def test_claims_are_protected_all_or_by_storage_class_and_unknown_ones_always() -> None:
    pods = [pod("bare", on="a"), pod_with_claim("fast", "f"), pod_with_claim("lost", "l"), pod_with_claim("slow", "s")]
    classes = {("default", "f"): "ssd", ("default", "s"): "disk"}
    assert evicted_names(protection_args("PodsWithPVC"), pods, storage_classes=classes) == ["bare"]
    only = {"protectedStorageClasses": [{"name": "ssd"}]}
    assert evicted_names(protection_args("PodsWithPVC", PodsWithPVC=only), pods, storage_classes=classes) == [
        "bare",
        "slow",
    ]


def test_pods_without_a_budget_are_protected_by_both_settings() -> None:
    pods = [pod("covered", on="a"), pod("free", on="a", app="other")]
    covers = (PreemptionBudget("default", hashable_selector(LabelSelector(match_labels={"app": "web"}), {}), 1),)
    assert evicted_names({"ignorePodsWithoutPDB": True}, pods, budgets=covers) == ["covered"]
    assert evicted_names(protection_args("PodsWithoutPDB"), pods, budgets=covers) == ["covered"]


def test_protection_lists_replace_the_deprecated_switches_and_cannot_be_mixed_with_them() -> None:
    daemon = pod("daemon", on="a", owner="DaemonSet/d")
    assert evicted_names({}, [daemon]) == []
    assert evicted_names({"podProtections": {"defaultDisabled": ["DaemonSetPods"]}}, [daemon]) == ["daemon"]
    assert evicted_names({"evictDaemonSetPods": True}, [daemon]) == ["daemon"]
    with pytest.raises(InputError, match="cannot be mixed with evictDaemonSetPods"):
        evicted_names({"evictDaemonSetPods": True, **protection_args("PodsWithPVC")}, [daemon])


def test_threshold_by_class_name_holds_by_itself_only_in_profile_trimtab() -> None:
    low, high = pod("low", on="a", priority=10), pod("high", on="a", priority=1000)
    named = {"priorityThreshold": {"name": "middle"}}
    assert evicted_names(named, [low, high], priorities={"middle": 100}) == ["low"]
    alone = {**named, "evictSystemCriticalPods": True}
    assert evicted_names(alone, [low, high], priorities={"middle": 100}) == ["high", "low"]  # as upstream: silently off
    assert evicted_names(alone, [low, high], TRIMTAB, priorities={"middle": 100}) == ["low"]


def test_min_replicas_counts_all_pods_upstream_and_ready_ones_in_profile_trimtab() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "startTime": NOON - timedelta(days=1)}
    pods = [pod("here", on="a", status=ready), pod("waits")]
    assert evicted_names({"minReplicas": 2}, pods) == ["here"]
    assert evicted_names({"minReplicas": 3}, pods) == []
    assert evicted_names({"minReplicas": 2}, pods, TRIMTAB) == []
    assert evicted_names({"minReplicas": 2}, [*pods, pod("there", on="b", status=ready)], TRIMTAB) == ["here"]


def test_pods_below_the_minimum_age_or_never_started_are_protected() -> None:
    def aged(name: str, age: timedelta | None) -> Pod:
        return pod(name, on="a", status={"startTime": NOON - age} if age is not None else {})

    pods = [aged("new", timedelta(minutes=89)), aged("never", None), aged("old", timedelta(minutes=90))]
    assert evicted_names({"minPodAge": "1h30m"}, pods) == ["old"]


@pytest.mark.parametrize(
    ("plugin", "args", "error"),
    [
        ("LowNodeUtilization", {}, "thresholds: at least one resource is required"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 101}}, "between 0 and 100"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 50}}, "the same resources"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}, "above its target"),
        ("HighNodeUtilization", {"thresholds": {"cpu": 20}, "evictionModes": ["x"]}, "there is no x"),
        ("PodLifeTime", {}, "at least one criterion"),
        ("PodLifeTime", {"states": ["Running"], "namespaces": {"include": ["a"], "exclude": ["b"]}}, "either"),
        ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 0}, "at least 1"),
        ("RemovePodsViolatingNodeAffinity", {}, "nodeAffinityType is empty"),
        ("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": ["x"]}, "there is no x"),
        ("RemovePodsViolatingNodeTaints", {"excludedTaints": ["a"], "includedTaints": ["b"]}, "either"),
        ("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["Maybe"]}, "there is no Maybe"),
        ("RemoveFailedPod", {}, "there is no deschedule plugin RemoveFailedPod"),
    ],
)
def test_policy_that_upstream_rejects_is_rejected_with_the_plugin_error(
    plugin: str, args: dict[str, Any], error: str
) -> None:
    with pytest.raises(InputError, match=error):
        read_policy(policy_with_evictor({}, plugin, **args))


@pytest.mark.parametrize(
    ("evictor", "error"),
    [
        ({"priorityThreshold": {"value": 1, "name": "x"}}, "a value or a name"),
        ({"noEvictionPolicy": "Never"}, "neither Preferred nor Mandatory"),
        (protection_args("PodsOnFire"), "there is no PodsOnFire"),
        ({"podProtections": {"defaultDisabled": ["PodsWithPVC"]}}, "is not on by default"),
        (
            protection_args("PodsWithoutPDB", PodsWithPVC={"protectedStorageClasses": []}),
            "needs PodsWithPVC in extraEnabled",
        ),
        ({"minPodAge": "soon"}, "is not a duration"),
    ],
)
def test_evictor_args_that_upstream_rejects_are_rejected(evictor: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        read_policy(policy_with_evictor(evictor))


def test_terminated_ephemeral_containers_count_only_on_request() -> None:
    ended = {"name": "debug", "state": {"terminated": {"exitCode": 7, "reason": "Error"}}}
    one = pod("one", on="b", status={"ephemeralContainerStatuses": [ended]})
    for asked, expected in ((False, []), (True, ["one"])):
        wanted = policy_with_evictor({}, "PodLifeTime", exitCodes=[7], includingEphemeralContainers=asked)
        found = run_cycle(read_policy(wanted), ClusterView.of(NODES, [one], now=NOON), UPSTREAM)
        assert [eviction.pod.name for eviction in found.evictions] == expected


def test_rejected_pods_have_a_reason() -> None:
    stuck, daemon = pod("stuck", on="a", cpu="9"), pod("daemon", on="a", owner="DaemonSet/d")
    meant = policy_with_evictor({"nodeFit": True})
    found = run_cycle(read_policy(meant), ClusterView.of(NODES, [stuck, daemon], now=NOON), UPSTREAM)
    assert {one.pod.name: one.reason for one in found.rejected} == {
        "daemon": "the policy protects it",
        "stuck": "it fits on no other node",
    }
    few = run_cycle(
        read_policy({**policy_with_evictor({}), "maxNoOfPodsToEvictTotal": 1}),
        ClusterView.of(NODES, [pod("p", on="a"), pod("q", on="a")]),
    )
    assert [(one.pod.name, one.reason) for one in few.rejected] == [("q", "the eviction limit of the cycle is reached")]
