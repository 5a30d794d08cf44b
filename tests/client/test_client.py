"""Paths and names of resources."""

import pytest

from trimtab.client.client import Resource
from trimtab.errors import BadRequest

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def test_path_of_a_collection_an_object_and_a_subresource() -> None:
    assert DEPLOYMENTS.path() == "/apis/apps/v1/deployments"
    assert DEPLOYMENTS.path("shop", "web", "scale") == "/apis/apps/v1/namespaces/shop/deployments/web/scale"
    assert NODES.path("ignored", "n") == "/api/v1/nodes/n"


@pytest.mark.parametrize("name", ["a/b", "../secrets/x", "web/status", "..", "."])
def test_name_that_leads_to_another_path_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="cannot be the name"):
        DEPLOYMENTS.path("shop", name)
    with pytest.raises(BadRequest, match="cannot be the name"):
        DEPLOYMENTS.path(name, "web")


def test_names_of_a_resource_include_its_group() -> None:
    assert (DEPLOYMENTS.id, DEPLOYMENTS.api_version) == ("deployments.apps", "apps/v1")
    assert (NODES.id, NODES.api_version) == ("nodes", "v1")
