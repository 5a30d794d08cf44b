"""Properties of a pod that decide whether it may be evicted, computed once per pod."""

from typing import NamedTuple

from trimtab.api.kinds.native.pod import Container, Pod
from trimtab.api.quantity import milli_value

EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
REQUEST_EVICT_ONLY_ANNOTATION = "descheduler.alpha.kubernetes.io/request-evict-only"
"""Another component deletes such a pod: an eviction only requests it, and a refusal that says so is expected."""
EVICTION_IN_PROGRESS_ANNOTATION = "descheduler.alpha.kubernetes.io/eviction-in-progress"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"

BEST_EFFORT, BURSTABLE, GUARANTEED = range(3)
COMPUTE_RESOURCES = ("cpu", "memory")


class PodTraits(NamedTuple):
    is_annotated_for_eviction: bool
    """Annotated: evict this pod whatever protects it."""
    prefers_no_eviction: bool
    """Annotated: evict other pods first."""
    is_static_pod: bool
    """A static or mirror pod, which the kubelet manages."""
    is_daemon: bool
    has_local_storage: bool
    volume_claims: tuple[str, ...]
    has_resource_claims: bool
    """Whether devices were allocated to it (spec.resourceClaims)."""
    controller_uid: str
    """The uid of its controller; empty without one."""
    owner_count: int
    owner_uid: str
    """The uid of its only owner; empty when it has none or several."""
    order: tuple[bool, int, int, bool, str, str]
    """Sort key, first to evict: lower priority (none is lowest), lower QoS class, no prefer-no-eviction."""


def pod_traits_of(pod: Pod) -> PodTraits:
    annotations, owners = pod.metadata.annotations, pod.metadata.owner_references
    reluctant, priority = PREFER_NO_EVICTION_ANNOTATION in annotations, pod.spec.priority
    volumes = pod.spec.volumes
    return PodTraits(
        is_annotated_for_eviction=EVICT_ANNOTATION in annotations,
        prefers_no_eviction=reluctant,
        is_static_pod=MIRROR_ANNOTATION in annotations or annotations.get(SOURCE_ANNOTATION, "api") != "api",
        is_daemon=any(owner.kind == "DaemonSet" for owner in owners),
        has_local_storage=any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        volume_claims=tuple(
            v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None
        ),
        has_resource_claims=bool(pod.spec.resource_claims),
        controller_uid=next((owner.uid for owner in owners if owner.controller), ""),
        owner_count=len(owners),
        owner_uid=owners[0].uid if len(owners) == 1 else "",
        order=(
            priority is not None,
            priority or 0,
            qos_class(pod),
            reluctant,
            pod.metadata.namespace,
            pod.metadata.name,
        ),
    )


def qos_class(pod: Pod) -> int:
    """Return the QoS class: guaranteed when all limits equal the requests, best effort without requests and limits."""
    is_best_effort = is_guaranteed = True
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        is_best_effort = is_best_effort and not _has_compute_resources(container)
        is_guaranteed = is_guaranteed and _is_guaranteed(container)
    if is_best_effort:
        return BEST_EFFORT
    return GUARANTEED if is_guaranteed else BURSTABLE


def _has_compute_resources(container: Container) -> bool:
    for side in (container.resources.requests, container.resources.limits):
        for name in COMPUTE_RESOURCES:
            if name in side and milli_value(side[name]):
                return True
    return False


def _is_guaranteed(container: Container) -> bool:
    requests, limits = container.resources.requests, container.resources.limits
    for name in COMPUTE_RESOURCES:
        most = milli_value(limits[name]) if name in limits else 0
        if not most or milli_value(requests.get(name, limits[name])) != most:
            return False
    return True
