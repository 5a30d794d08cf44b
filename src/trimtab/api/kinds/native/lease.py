"""Leases: the current holder of a lock, and when it last renewed it."""

from datetime import datetime
from typing import Annotated

from trimtab.api.kind import kind
from trimtab.api.kinds.native.rules import lease
from trimtab.api.value import MicroTime, Object, Value


class LeaseSpec(Value):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Annotated[datetime | None, MicroTime()] = None
    renew_time: Annotated[datetime | None, MicroTime()] = None
    lease_transitions: int | None = None


@kind(group="coordination.k8s.io", version="v1", plural="leases", custom=False, validators=[lease.check_lease])
class Lease(Object):
    spec: LeaseSpec = LeaseSpec()
