"""Fields that the server sets on create and update."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.registry.strategy import copy_members

POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"


def test_generation_counts_only_spec_changes() -> None:
    async def scenario(wire: AsgiClient) -> None:
        selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
        policy = {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "p"},
            "spec": {"resourceSelectors": selectors},
        }
        await wire("POST", POLICIES, policy)
        merge = {"content_type": "application/merge-patch+json"}
        labelled = await wire("PATCH", f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}}, **merge)
        assert labelled.json()["metadata"]["generation"] == 1
        changed = await wire("PATCH", f"{POLICIES}/p", {"spec": {"priority": 5}}, **merge)
        assert changed.json()["metadata"]["generation"] == 2

    with_asgi_client(scenario)


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "good"}]},
}
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content_type": "application/merge-patch+json"}


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_subresource_of_a_pod_writes_only_its_own_part(subresource: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        before = (await client("POST", PODS, POD)).json()
        spec = {"serviceAccountName": "other", "hostNetwork": True, "containers": [{"name": "c", "image": "evil"}]}
        patch = {"metadata": {"labels": {"a": "c"}, "finalizers": ["x.example/y"]}, "spec": spec}
        assert (await client("PATCH", f"{PODS}/p/{subresource}", patch, **MERGE)).status == 200
        after = (await client("GET", f"{PODS}/p")).json()
        assert after["spec"] == before["spec"]
        assert after["metadata"]["labels"] == {"a": "b"}
        assert "finalizers" not in after["metadata"]

    with_asgi_client(scenario)


def test_resize_changes_resources_of_containers_only() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", PODS, POD)
        container = {"name": "c", "image": "evil", "resources": {"requests": {"cpu": "1"}}}
        changed = (await client("PATCH", f"{PODS}/p/resize", {"spec": {"containers": [container]}}, **MERGE)).json()
        assert changed["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
        assert changed["spec"]["containers"][0]["image"] == "good"

    with_asgi_client(scenario)


def test_ephemeral_containers_are_added_and_never_changed_or_removed() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", PODS, POD)
        path = f"{PODS}/p/ephemeralcontainers"
        added = await client("PATCH", path, {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}, **MERGE)
        assert [one["name"] for one in added.json()["spec"]["ephemeralContainers"]] == ["d"]
        for containers in ([], [{"name": "d", "image": "other"}], [{"name": "c", "image": "i"}], [{"name": "e"}]):
            refused = await client("PATCH", path, {"spec": {"ephemeralContainers": containers}}, **MERGE)
            assert refused.status == 422, containers

    with_asgi_client(scenario)


def test_status_of_a_pod_does_not_change_its_owners() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", PODS, POD)
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
        await client("PATCH", f"{PODS}/p/status", {"metadata": {"ownerReferences": [owner]}}, **MERGE)
        assert "ownerReferences" not in (await client("GET", f"{PODS}/p")).json()["metadata"]

    with_asgi_client(scenario)


def test_status_of_a_crd_does_not_change_its_metadata() -> None:
    async def scenario(client: AsgiClient) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/works.work.karmada.io"
        await client("PATCH", f"{path}/status", {"metadata": {"labels": {"a": "b"}}}, **MERGE)
        assert "a" not in ((await client("GET", path)).json()["metadata"].get("labels") or {})

    with_asgi_client(scenario)


def test_members_are_copied_and_those_that_are_missing_removed() -> None:
    target = {"a": 1, "b": 2, "c": 3}
    copy_members(target, {"a": 4, "d": 5}, "a", "b", "d", "e")
    assert target == {"a": 4, "c": 3, "d": 5}
