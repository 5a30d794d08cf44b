"""What would be lost with a namespace of a member."""

import pytest

from trimtab.client.client import Listing, Resource
from trimtab.clock import run_virtually
from trimtab.errors import Forbidden, NotFound
from trimtab.runtime.effects.foreign_objects import MAX_NAMED, foreign_objects, is_foreign

VERBS = ("get", "list", "watch")
PODS = Resource("", "v1", "pods", "Pod", verbs=VERBS)
CONFIGS = Resource("", "v1", "configmaps", "ConfigMap", verbs=VERBS)
EVENTS = Resource("", "v1", "events", "Event", verbs=VERBS)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False, verbs=VERBS)


class FakeMember:
    """A member with prepared lists; an exception is raised."""

    def __init__(self, **lists):
        self.lists = lists

    async def resources(self):
        return [PODS, CONFIGS, EVENTS, NODES, Resource("", "v1", "bindings", "Binding", verbs=("create",))]

    async def list(self, resource, namespace):
        assert namespace == "team"
        found = self.lists.get(resource.plural, [])
        if isinstance(found, Exception):
            raise found
        return Listing([{"metadata": metadata} for metadata in found], "1")


def find(**lists):
    return run_virtually(foreign_objects(FakeMember(**lists), "team"))  # type: ignore[arg-type]


def test_objects_of_kubernetes_and_objects_with_an_owner_are_not_foreign() -> None:
    owned = {"name": "web-1", "ownerReferences": [{"kind": "ReplicaSet"}]}
    gone = {"name": "old", "deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert find(pods=[owned], configmaps=[{"name": "kube-root-ca.crt"}, gone], events=[{"name": "e"}]) == ()
    assert not is_foreign("Secret", {"metadata": {"name": "t"}, "type": "kubernetes.io/service-account-token"})
    assert not is_foreign("ServiceAccount", {"metadata": {"name": "default"}})


def test_any_other_object_is_foreign_also_a_managed_one_of_another_control_plane() -> None:
    managed = {"name": "b", "labels": {"karmada.io/managed": "true"}}
    assert find(pods=[{"name": "a"}], configmaps=[managed]) == ("Pod/a", "ConfigMap/b")
    assert len(find(pods=[{"name": str(n)} for n in range(20)])) == MAX_NAMED


@pytest.mark.parametrize(("fault", "found"), [(Forbidden("no"), 1), (NotFound("no"), 0)])
def test_kind_that_cannot_be_listed_may_have_objects(fault: Exception, found: int) -> None:
    assert len(find(configmaps=fault)) == found
