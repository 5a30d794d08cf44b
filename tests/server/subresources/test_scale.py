"""The scale subresource."""

import pytest

from server.asgi import AsgiClient, with_asgi_client

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABELS = {"app": "web"}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "c"}]}},
    },
}


def test_scale_shows_replicas_and_selector_and_changes_only_replicas() -> None:
    async def scenario(wire: AsgiClient) -> None:
        assert (await wire("POST", DEPLOYMENTS, DEPLOYMENT)).status == 201
        scale = (await wire("GET", f"{DEPLOYMENTS}/web/scale")).json()
        assert (scale["kind"], scale["spec"], scale["status"]) == (
            "Scale",
            {"replicas": 2},
            {"replicas": 0, "selector": "app=web"},
        )
        assert (await wire("PUT", f"{DEPLOYMENTS}/web/scale", {**scale, "spec": {"replicas": 5}})).status == 200
        merge = {"content_type": "application/merge-patch+json"}
        before = (await wire("GET", f"{DEPLOYMENTS}/web")).json()
        assert before["spec"]["replicas"] == 5
        patched = await wire("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 0}}, **merge)
        assert patched.json()["spec"] == {}
        after = (await wire("GET", f"{DEPLOYMENTS}/web")).json()
        assert after["spec"] == {**before["spec"], "replicas": 0}

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "three"}}, 400),
        ({"spec": {"replicas": True}}, 400),
        ({"metadata": {"name": "other"}, "spec": {"replicas": 1}}, 400),
        ({"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 1}}, 409),
    ],
)
def test_invalid_scale_is_refused(body: dict, status: int) -> None:
    async def scenario(wire: AsgiClient) -> None:
        await wire("POST", DEPLOYMENTS, DEPLOYMENT)
        merge = {"content_type": "application/merge-patch+json"}
        assert (await wire("PATCH", f"{DEPLOYMENTS}/web/scale", body, **merge)).status == status

    with_asgi_client(scenario)
