"""Properties of a pod that decide whether it may be evicted, computed once per pod."""

from typing import NamedTuple

from trimtab.api.kinds.native.pod import Container, Pod
from trimtab.api.quantity import milli_value

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
ON_REQUEST = "descheduler.alpha.kubernetes.io/request-evict-only"
"""Another component deletes such a pod: an eviction only requests it, and a refusal that says so is expected."""
UNDER_WAY = "descheduler.alpha.kubernetes.io/eviction-in-progress"
MIRROR = "kubernetes.io/config.mirror"
SOURCE = "kubernetes.io/config.source"

BEST_EFFORT, BURSTABLE, GUARANTEED = range(3)
COMPUTE = ("cpu", "memory")


class Traits(NamedTuple):
    invited: bool
    """Annotated: evict this pod whatever protects it."""
    reluctant: bool
    """Annotated: evict other pods first."""
    immovable: bool
    """A static or mirror pod, which the kubelet manages."""
    daemon: bool
    local_storage: bool
    claims: tuple[str, ...]
    resource_claims: bool
    """Whether devices were allocated to it (spec.resourceClaims)."""
    controller: str
    """The uid of its controller; empty without one."""
    owners: int
    owner_uid: str
    """The uid of its only owner; empty when it has none or several."""
    order: tuple[bool, int, int, bool, str, str]
    """Sort key, first to evict: lower priority (none is lowest), lower QoS class, no prefer-no-eviction."""


def traits(pod: Pod) -> Traits:
    annotations, owners = pod.metadata.annotations, pod.metadata.owner_references
    reluctant, priority = PREFER_NO_EVICTION in annotations, pod.spec.priority
    volumes = pod.spec.volumes
    return Traits(
        invited=EVICT in annotations,
        reluctant=reluctant,
        immovable=MIRROR in annotations or annotations.get(SOURCE, "api") != "api",
        daemon=any(owner.kind == "DaemonSet" for owner in owners),
        local_storage=any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        claims=tuple(v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None),
        resource_claims=bool(pod.spec.resource_claims),
        controller=next((owner.uid for owner in owners if owner.controller), ""),
        owners=len(owners),
        owner_uid=owners[0].uid if len(owners) == 1 else "",
        order=(priority is not None, priority or 0, quality(pod), reluctant, pod.metadata.namespace, pod.metadata.name),
    )


def quality(pod: Pod) -> int:
    """Return the QoS class: guaranteed when all limits equal the requests, best effort without requests and limits."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if not any(_asks(container) for container in containers):
        return BEST_EFFORT
    return GUARANTEED if all(_is_fixed(container) for container in containers) else BURSTABLE


def _asks(container: Container) -> bool:
    for side in (container.resources.requests, container.resources.limits):
        for name in COMPUTE:
            if name in side and milli_value(side[name]):
                return True
    return False


def _is_fixed(container: Container) -> bool:
    requests, limits = container.resources.requests, container.resources.limits
    for name in COMPUTE:
        most = milli_value(limits.get(name, 0))
        if not most or milli_value(requests.get(name, limits[name])) != most:
            return False
    return True
