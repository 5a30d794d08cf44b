"""The claims of a StatefulSet: whether each goes with the StatefulSet, with its pod, or stays."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.apps import StatefulSet
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.storage import PersistentVolumeClaim
from trimtab.api.value import Object, OwnerReference, Raw
from trimtab.controllers.contract import Effect, View


def claim_name(claim: Raw, pod: str) -> str:
    return f"{claim['metadata']['name']}-{pod}"


def update_claim_owners(
    wanted: StatefulSet, raw: Raw, pods: Mapping[int, Pod], ordinals: range, view: View
) -> Iterator[Effect]:
    """Give every claim the owners that `persistentVolumeClaimRetentionPolicy` asks for.

    The garbage collector then deletes a claim with its StatefulSet (`whenDeleted`), or with the pod that is removed when
    the StatefulSet is scaled down (`whenScaled`). A claim that another controller owns is left alone.
    """
    policy = raw["spec"].get("persistentVolumeClaimRetentionPolicy")
    templates = raw["spec"].get("volumeClaimTemplates") or ()
    if not policy or not templates:
        return
    for ordinal in sorted({*pods, *ordinals}):
        pod = pods.get(ordinal)
        for template in templates:
            name = claim_name(template, f"{wanted.name}-{ordinal}")
            claim = view.get(PersistentVolumeClaim, wanted.namespace, name)
            if claim is None or claim.metadata.deletion_timestamp is not None:
                continue
            if _is_owned_elsewhere(claim, wanted, pod):
                continue
            own = {wanted.metadata.uid, pod.metadata.uid if pod is not None else ""}
            others = tuple(one for one in claim.metadata.owner_references if one.uid not in own)
            owners = (*others, *_owners(wanted, policy, pod, is_surplus=ordinal not in ordinals))
            if _flags(claim.metadata.owner_references) != _flags(owners):
                yield claim.but(metadata=claim.metadata.but(owner_references=owners))


def _owners(wanted: StatefulSet, policy: Raw, pod: Pod | None, *, is_surplus: bool) -> tuple[OwnerReference, ...]:
    deletes = {field: policy.get(field) == "Delete" for field in ("whenDeleted", "whenScaled")}
    if is_surplus and deletes["whenScaled"]:
        return (_reference(pod),) if pod is not None else ()
    return (_reference(wanted),) if deletes["whenDeleted"] else ()


def _flags(owners: Iterable[OwnerReference]) -> set[tuple[str, bool]]:
    return {(one.uid, bool(one.controller)) for one in owners}


def _is_owned_elsewhere(claim: Any, wanted: StatefulSet, pod: Pod | None) -> bool:
    own = {wanted.metadata.uid, pod.metadata.uid if pod is not None else ""}
    return any(one.controller and one.uid not in own for one in claim.metadata.owner_references)


def _reference(owner: Object) -> OwnerReference:
    kind, metadata = kind_of(owner), owner.metadata
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.name,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
