from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

LEASE: Raw = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 15}}


def test_valid_lease_is_accepted_on_create_and_update() -> None:
    assert validation_error("coordination.k8s.io/v1", "Lease", LEASE) == ""
    assert validation_error("coordination.k8s.io/v1", "Lease", LEASE, LEASE) == ""


def test_duration_must_be_positive() -> None:
    lease = with_change(LEASE, "spec", "leaseDurationSeconds", to=0)
    assert validation_error("coordination.k8s.io/v1", "Lease", lease) == (
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    )


def test_transitions_must_not_be_negative() -> None:
    assert (
        validation_error("coordination.k8s.io/v1", "Lease", with_change(LEASE, "spec", "leaseTransitions", to=0)) == ""
    )
    lease = with_change(LEASE, "spec", "leaseTransitions", to=-1)
    assert validation_error("coordination.k8s.io/v1", "Lease", lease) == (
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
    )
