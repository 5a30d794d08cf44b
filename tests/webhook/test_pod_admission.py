"""Replacements avoid the node they were moved from, and limited priorities need a quota."""

from datetime import timedelta
from typing import Any

import pytest

from trimtab.api.value import OwnerReference, Raw
from trimtab.decide.pods.avoid_list import AVOID_PODS_ANNOTATION, AvoidEntry, PodSignature, encode_entries
from trimtab.webhook.pod_admission import PodAdmission
from trimtab.webhook.review import ALLOWED, Refused
from webhook.webhook_helpers import Cluster, creation, run_in_cluster, settle


def pod(*, owner: str = "u1", kind: str = "ReplicaSet", **spec: Any) -> Raw:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "generateName": "web-", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


async def add_node(cluster: Cluster, name: str, *owners: str, root: str = "", minutes: int = 60) -> None:
    entries = [
        AvoidEntry(
            pod_signature=PodSignature(pod_controller=OwnerReference(kind="ReplicaSet", name="web", uid=owner)),
            expiry=cluster.clock.now() + timedelta(minutes=minutes),
            root_uid=root,
        )
        for owner in owners
    ]
    metadata: Raw = {"name": name, "labels": {"kubernetes.io/hostname": f"host-{name}"}}
    if entries:
        metadata["annotations"] = {AVOID_PODS_ANNOTATION: encode_entries(entries)}
    await cluster.add({"apiVersion": "v1", "kind": "Node", "metadata": metadata})


def avoided_hosts(changed: Raw | None) -> list[str]:
    assert changed is not None
    terms = changed["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (rule,) = terms[-1]["preference"]["matchExpressions"]
    assert (rule["key"], rule["operator"], terms[-1]["weight"]) == ("kubernetes.io/hostname", "NotIn", 100)
    return list(rule["values"])


def test_replacement_prefers_other_nodes_than_those_that_avoid_its_owner() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = PodAdmission(cluster.client, cluster.cache, cluster.clock)
        await add_node(cluster, "n1", "u1")
        await add_node(cluster, "n2", "other")
        await add_node(cluster, "n3")
        await settle()
        given = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
        changed = (await admission.mutate(creation("pods", pod(affinity=given)))).object
        assert avoided_hosts(changed) == ["host-n1"]
        assert changed is not None
        preferred = changed["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert preferred[0] == {"weight": 1, "preference": {}}
        assert await admission.mutate(creation("pods", pod(owner="u9"))) is ALLOWED
        assert await admission.mutate(creation("pods", pod(kind="DaemonSet"))) is ALLOWED
        assert await admission.mutate(creation("pods", pod(nodeName="n1"))) is ALLOWED

    run_in_cluster(scenario)


def test_entry_ends_with_its_time() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = PodAdmission(cluster.client, cluster.cache, cluster.clock)
        await add_node(cluster, "n1", "u1", minutes=0)
        await settle()
        assert await admission.mutate(creation("pods", pod())) is ALLOWED

    run_in_cluster(scenario)


def test_entry_holds_after_a_rollout() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = PodAdmission(cluster.client, cluster.cache, cluster.clock)
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        metadata: Raw = {"namespace": "default", "name": "web"}
        (deployment,) = await cluster.add(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        )
        uid = deployment["metadata"]["uid"]
        await add_node(cluster, "n1", "old-set", root=uid)
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": True}
        owned = {**metadata, "ownerReferences": [owner]}
        await cluster.add({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned, "spec": spec})
        await settle()
        assert avoided_hosts((await admission.mutate(creation("pods", pod(owner="new-set")))).object) == ["host-n1"]

    run_in_cluster(scenario)


@pytest.mark.parametrize("has_quota", [True, False])
def test_limited_priority_needs_a_quota(has_quota: bool) -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": "gold"},
        "spec": {"hard": {"pods": "5"}, "scopeSelector": scope},
    }
    policy = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionPolicy",
        "metadata": {"name": "default"},
        "spec": {"limitedPriorities": ["gold"]},
    }

    async def scenario(cluster: Cluster) -> None:
        admission = PodAdmission(cluster.client, cluster.cache, cluster.clock)
        await cluster.add(policy, *([quota] if has_quota else []))
        await settle()
        assert await admission.validate(creation("pods", pod(priorityClassName="silver"))) is ALLOWED
        review = creation("pods", pod(priorityClassName="gold"))
        if has_quota:
            assert await admission.validate(review) is ALLOWED
        else:
            with pytest.raises(Refused, match="insufficient quota"):
                await admission.validate(review)

    run_in_cluster(scenario)
