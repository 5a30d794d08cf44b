import pytest

from trimtab.client.client import Resource
from trimtab.errors import InputError
from trimtab.runtime.propagatable import is_propagatable, parse_kinds


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


@pytest.mark.parametrize("text", ["", " , ", "Deployment", "apps/v1", "deployments.", "pods/exec", "*.*"])
def test_what_is_no_kind_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--kinds: "):
        parse_kinds(text)


def test_selection_includes_named_kinds_and_groups() -> None:
    chosen = parse_kinds("default,widgets.example.com,*.example.org")
    assert chosen.includes(Resource("apps", "v1", "deployments", "Deployment"))
    assert chosen.includes(Resource("example.com", "v1", "widgets", "Widget"))
    assert not chosen.includes(Resource("example.com", "v1", "gadgets", "Gadget"))
    assert chosen.includes(Resource("example.org", "v1", "gadgets", "Gadget"))
    assert not chosen.includes(Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"))
    assert parse_kinds("*").includes(Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"))
    assert not parse_kinds("configmaps").includes(Resource("example.com", "v1", "configmaps", "ConfigMap"))
