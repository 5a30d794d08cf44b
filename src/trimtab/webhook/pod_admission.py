"""Admission of pods: replacements avoid the node that they were moved from, and some priorities need a quota.

A stock scheduler does not read avoid lists. So a new pod whose owner is on the avoid list of a node gets a preferred node
affinity against that node: the scheduler takes another one if it can, and this one if it must.
"""

from collections.abc import Iterator
from typing import cast

import msgspec

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.decide.pods.avoid_list import entries_of, is_avoided_by
from trimtab.decide.pods.budgets.priority_quota import quota_applies_to
from trimtab.errors import Forbidden, NotFound
from trimtab.runtime.cache import Cache
from trimtab.webhook.review import ALLOWED, Refused, Review, Verdict

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
HOSTNAME_LABEL = "kubernetes.io/hostname"
AVOID_WEIGHT = 100


class PodAdmission:
    """Reads nodes, quotas and the DisruptionPolicy from the cache."""

    def __init__(self, client: Client, cache: Cache, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._nodes = cache.table_of(Node)
        self._quotas = cache.table_of(ResourceQuota)
        self._policies = cache.table_of(DisruptionPolicy)

    async def mutate(self, review: Review) -> Verdict:
        """Give a replacement a preferred node affinity against the nodes that avoid its owner."""
        if review.object is None or review.operation != "CREATE" or review.subresource:
            return ALLOWED
        pod = msgspec.convert(review.object, Pod, strict=False)
        owner = pod.controller
        if owner is None or owner.kind == "DaemonSet" or pod.spec.node_name:
            return ALLOWED
        lists = [(node, entries) for node in self._all_nodes() if (entries := entries_of(node.metadata.annotations))]
        if not lists:
            return ALLOWED
        uids = {owner.uid, *(await self._root_uids(review.namespace, owner.kind, owner.name))}
        now = self._clock.now()
        avoided = sorted(
            node.metadata.labels.get(HOSTNAME_LABEL, node.name)
            for node, entries in lists
            if is_avoided_by(entries, uids, now)
        )
        return Verdict(object=with_avoided_nodes(review.object, avoided)) if avoided else ALLOWED

    async def validate(self, review: Review) -> Verdict:
        """Refuse a pod of a limited priority in a namespace without a quota for it.

        The amounts of quotas are counted by the API server itself, which reads their priority scopes.
        """
        if review.object is None or review.operation != "CREATE" or review.subresource:
            return ALLOWED
        entry = self._policies.entries.get(("", "default"))
        pod = msgspec.convert(review.object, Pod, strict=False)
        name = pod.spec.priority_class_name
        if entry is None or name not in cast("DisruptionPolicy", entry.typed).spec.limited_priorities:
            return ALLOWED
        quotas = [
            cast("ResourceQuota", one.typed)
            for (space, _), one in self._quotas.entries.items()
            if space == review.namespace
        ]
        if not any(quota.spec.scope_selector and quota_applies_to(quota, pod) for quota in quotas):
            raise Refused(Forbidden(f"insufficient quota to match these scopes: [{{PriorityClass In [{name}]}}]"))
        return ALLOWED

    def _all_nodes(self) -> Iterator[Node]:
        for entry in self._nodes.entries.values():
            yield cast("Node", entry.typed)

    async def _root_uids(self, namespace: str, kind: str, name: str) -> list[str]:
        """The uid of the owner of a ReplicaSet, so that the list also holds after a rollout."""
        if kind != "ReplicaSet":
            return []
        try:
            found = await self._client.get(REPLICA_SETS, namespace, name)
        except NotFound:
            return []
        references = found["metadata"].get("ownerReferences") or ()
        return [str(one["uid"]) for one in references if one.get("controller")]


def with_avoided_nodes(pod: Raw, hosts: list[str]) -> Raw:
    """The pod with a preference for other nodes than these."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    term = {
        "weight": AVOID_WEIGHT,
        "preference": {"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "NotIn", "values": hosts}]},
    }
    preferred = [*(node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), term]
    wanted = {**node_affinity, "preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {**pod, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": wanted}}}
