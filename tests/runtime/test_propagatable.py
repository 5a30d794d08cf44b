import pytest

from trimtab.client.client import Resource
from trimtab.runtime.propagatable import is_propagatable


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (Resource("apps", "v1", "deployments", "Deployment"), True),
        (Resource("example.com", "v1", "widgets", "Widget"), True),
        (Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy"), False),
        (Resource("example-abc.karmada.io", "v1alpha1", "widgets", "Widget"), True),
        (Resource("trimtab.dev", "v1alpha1", "moves", "Move"), False),
        (Resource("nottrimtab.dev", "v1", "things", "Thing"), True),
        (Resource("", "v1", "events", "Event"), False),
        (Resource("coordination.k8s.io", "v1", "leases", "Lease"), False),
    ],
)
def test_kinds_of_the_control_plane_and_of_one_server_are_not_propagated(resource: Resource, expected: bool) -> None:
    assert is_propagatable(resource) is expected
