"""The defaults and validations of the admission webhooks of Karmada and OCM, as the kinds declare them."""

from collections.abc import Callable, Sequence

from trimtab.api.admission.taint_policy import check_taint_policy
from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Cause, Forbidden
from trimtab.server.admission.chain import Attributes
from trimtab.server.api_errors import join_causes
from trimtab.server.storage.uids import random_uid

PROTECTED_LABEL = "resourcetemplate.karmada.io/deletion-protected"
PROTECTION_WEBHOOK = "resourcedeletionprotection.karmada.io"
PERMANENT_IDS = {
    "propagationpolicies.policy.karmada.io": (
        "propagationpolicy.karmada.io/permanent-id",
        "karmada.io/propagation-policy-controller",
    ),
    "clusterpropagationpolicies.policy.karmada.io": (
        "clusterpropagationpolicy.karmada.io/permanent-id",
        "karmada.io/cluster-propagation-policy-controller",
    ),
}
"""Policies get a permanent-id label and a finalizer."""


class PeerWebhooks:
    """An admission plugin; `trimtab up` has it, a bare `trimtab apiserver` does not."""

    def __init__(self, new_id: Callable[[], str] = random_uid, *, allow_no_execute_taints: bool = False) -> None:
        """`allow_no_execute_taints`: ClusterTaintPolicies may add taints that evict workloads."""
        self._new_id = new_id
        self._allow_no_execute_taints = allow_no_execute_taints

    def handles(self, kind: Kind, operation: str) -> bool:
        has_rules = kind.admission_defaults or kind.admission_validators or kind.id in PERMANENT_IDS
        return bool(has_rules) or operation == "DELETE"

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.subresource:
            return obj
        kind = attributes.where.served.kind
        for fill in kind.admission_defaults:
            obj = fill(obj)
        if attributes.operation == "CREATE" and kind.id in PERMANENT_IDS:
            obj = with_permanent_id(obj, *PERMANENT_IDS[kind.id], self._new_id())
        return obj

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        served, subresource = attributes.where.served, attributes.where.subresource
        if attributes.operation == "DELETE":
            if old is not None and (old["metadata"].get("labels") or {}).get(PROTECTED_LABEL) == "Always":
                message = f"This resource is protected, please make sure to remove the label: {PROTECTED_LABEL}"
                raise Forbidden(
                    f'admission webhook "{PROTECTION_WEBHOOK}" denied the request: {message}', details=False
                )
            return
        if obj is None or subresource or obj["metadata"].get("deletionTimestamp"):
            return
        causes: list[Cause] = []
        for check in served.kind.admission_validators:
            if check is check_taint_policy:
                causes += check_taint_policy(obj, old, allow_no_execute=self._allow_no_execute_taints)
            else:
                causes += check(obj, old)
        if causes:
            raise webhook_denial(served.kind.singular, served.group, causes)


def with_permanent_id(obj: Raw, label: str, finalizer: str, new_id: str) -> Raw:
    """A new policy with its id and its finalizer."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), label: new_id}
    finalizers = list(dict.fromkeys((*(metadata.get("finalizers") or ()), finalizer)))
    return {**obj, "metadata": {**metadata, "labels": labels, "finalizers": finalizers}}


def webhook_denial(singular: str, group: str, causes: Sequence[Cause]) -> Forbidden:
    """The refusal in the words of an upstream webhook."""
    webhook = f"{singular}.karmada.io" if group.endswith("karmada.io") else f"{singular}.{group}"
    return Forbidden(f'admission webhook "{webhook}" denied the request: {join_causes(causes)}', details=False)
