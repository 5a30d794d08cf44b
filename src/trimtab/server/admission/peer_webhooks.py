"""The defaults and validations of the admission webhooks of Karmada and OCM, as the kinds declare them."""

from collections.abc import Callable
from datetime import datetime

from trimtab.api.admission.denials import denial, with_webhook_name
from trimtab.api.admission.ocm import stamp_unset_taints
from trimtab.api.admission.taint_policy import check_taint_policy
from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import ApiError, Cause, Forbidden
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.user import MASTERS
from trimtab.server.request import large_objects
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


def _with_defaults(kind: Kind, obj: Raw) -> Raw:
    for fill in kind.admission_defaults:
        obj = fill(obj)
    return obj


class PeerWebhooks:
    """An admission plugin; `trimtab up` has it, a bare `trimtab apiserver` does not."""

    def __init__(self, new_id: Callable[[], str] = random_uid, *, allow_no_execute_taints: bool = False) -> None:
        """`allow_no_execute_taints`: ClusterTaintPolicies may add taints that evict workloads."""
        self._new_id = new_id
        self._now: Callable[[], datetime] | None = None
        self._allow_no_execute_taints = allow_no_execute_taints

    def handles(self, kind: Kind, operation: str) -> bool:
        rules = (kind.admission_defaults, kind.admission_validators, kind.admission_changes)
        return any(rules) or kind.id in PERMANENT_IDS or operation == "DELETE"

    def use_clock(self, now: Callable[[], datetime]) -> None:
        self._now = now

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.subresource:
            return obj
        kind = attributes.where.served.kind
        obj = self._with_changes(attributes, obj, old)
        obj = await large_objects.run(attributes.caller.sends_large_object, _with_defaults, kind, obj)
        if attributes.operation == "CREATE" and kind.id in PERMANENT_IDS:
            obj = with_permanent_id(obj, *PERMANENT_IDS[kind.id], self._new_id())
        return obj

    def _with_changes(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        """What depends on the stored object and the time. Administrators may choose the times of taints."""
        kind = attributes.where.served.kind
        if not kind.admission_changes:
            return obj
        if self._now is None:
            raise RuntimeError("the plugin does not belong to a server, so it has no clock")
        now = self._now()
        if MASTERS in attributes.caller.user.groups:
            return stamp_unset_taints(obj, old, now)
        try:
            for change in kind.admission_changes:
                obj = change(obj, old, now)
        except ApiError as refusal:
            raise with_webhook_name(refusal, kind.singular, kind.group) from None
        return obj

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if attributes.operation == "DELETE":
            if old is not None and (old["metadata"].get("labels") or {}).get(PROTECTED_LABEL) == "Always":
                message = f"This resource is protected, please make sure to remove the label: {PROTECTED_LABEL}"
                raise Forbidden(
                    f'admission webhook "{PROTECTION_WEBHOOK}" denied the request: {message}', details=False
                )
            return
        if obj is None or attributes.where.subresource:
            return
        if not obj["metadata"].get("deletionTimestamp"):
            is_large = attributes.caller.sends_large_object
            await large_objects.run(is_large, self._check_valid, attributes, obj, old)

    def _check_valid(self, attributes: Attributes, obj: Raw, old: Raw | None) -> None:
        served = attributes.where.served
        causes: list[Cause] = []
        for check in served.kind.admission_validators:
            if check is check_taint_policy:
                causes += check_taint_policy(obj, old, allow_no_execute=self._allow_no_execute_taints)
            else:
                causes += check(obj, old)
        if causes:
            raise with_webhook_name(denial(served.group, causes), served.kind.singular, served.group)


def with_permanent_id(obj: Raw, label: str, finalizer: str, new_id: str) -> Raw:
    """A new policy with its id and its finalizer."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), label: new_id}
    finalizers = list(dict.fromkeys((*(metadata.get("finalizers") or ()), finalizer)))
    return {**obj, "metadata": {**metadata, "labels": labels, "finalizers": finalizers}}
