"""Removes the finalizers of deleted claims that no pod uses, and of deleted volumes that are not bound."""

from collections.abc import Iterator

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.storage import PersistentVolume, PersistentVolumeClaim
from trimtab.api.paths import object_at
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Effect, Ensure, Trigger, View
from trimtab.server.admission.storage_protection import CLAIM_PROTECTION, VOLUME_PROTECTION
from trimtab.simulate.components.registry import component
from trimtab.simulate.workloads.owned_pods import raw_of


def _claims_of(pod: Pod) -> Iterator[str]:
    return (
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )


def _claims_of_gone_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    if old is not None and new is None:
        yield from (Key("persistentvolumeclaims", old.namespace, name) for name in _claims_of(old))


def _without(finalizer: str, raw: Raw) -> Iterator[Effect]:
    metadata = object_at(raw, "metadata")
    finalizers = metadata.get("finalizers") or []
    if finalizer in finalizers:
        kept = [one for one in finalizers if one != finalizer]
        yield Ensure({**raw, "metadata": {**metadata, "finalizers": kept}}, raw)


@component(PersistentVolumeClaim, writes=["metadata.finalizers"], triggers=[Trigger(Pod, _claims_of_gone_pod)])
def claim_protection(claim: PersistentVolumeClaim, view: View) -> Iterator[Effect]:
    if claim.metadata.deletion_timestamp is None:
        return
    pods = (pod for pod in view.all(Pod, claim.metadata.namespace) if pod.spec.node_name)
    if not any(claim.metadata.name in _claims_of(pod) for pod in pods):
        yield from _without(CLAIM_PROTECTION, raw_of(claim, view))


@component(PersistentVolume, writes=["metadata.finalizers"])
def volume_protection(volume: PersistentVolume, view: View) -> Iterator[Effect]:
    raw = raw_of(volume, view)
    if volume.metadata.deletion_timestamp is not None and object_at(raw, "status").get("phase") != "Bound":
        yield from _without(VOLUME_PROTECTION, raw)
