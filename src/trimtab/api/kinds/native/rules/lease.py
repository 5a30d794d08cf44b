"""What kube-apiserver rejects in Leases."""

from collections.abc import Sequence

from trimtab.api.kinds.native.rules import common
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


def check_lease(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    return [
        *common.check_positive(spec.get("leaseDurationSeconds"), "spec.leaseDurationSeconds"),
        *common.check_not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions"),
    ]
