from datetime import UTC, datetime

from api.kinds.kind_helpers import decode, reencode
from trimtab.api.kinds.native.lease import Lease

RAW = {
    "metadata": {"name": "l"},
    "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000001Z"},
}


def test_lease_keeps_microseconds_of_its_renew_time() -> None:
    assert decode(Lease, RAW).spec.renew_time == datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


def test_microseconds_survive_encoding() -> None:
    assert reencode(Lease, RAW)["spec"] == RAW["spec"]
