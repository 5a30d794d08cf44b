"""Fields that the server sets on create and update."""

from server.asgi import AsgiClient, with_asgi_client

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
