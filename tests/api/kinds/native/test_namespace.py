from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.namespace import Namespace


def test_namespace_is_terminating_by_deletion_timestamp_or_phase() -> None:
    assert decode(Namespace, {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}).is_terminating
    assert decode(Namespace, {"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}).is_terminating


def test_active_namespace_is_not_terminating() -> None:
    assert not decode(Namespace, {"metadata": {"name": "n"}, "status": {"phase": "Active"}}).is_terminating
