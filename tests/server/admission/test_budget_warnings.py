"""Warnings about disruption budgets."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.subresources.test_eviction import PDBS, POLICY, SELECTOR, pod
from trimtab.decide.pods.budgets.pod_budgets import RATE_ANNOTATION


@pytest.mark.parametrize(
    ("limit", "warned"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"maxUnavailable": "1%"}, False),
        ({"minAvailable": "100%"}, True),
        ({"minAvailable": "99%"}, False),
        ({"minAvailable": 2}, True),
        ({"minAvailable": 1}, False),
    ],
)
def test_budget_that_never_allows_an_eviction_returns_a_warning(limit: dict[str, object], warned: bool) -> None:
    async def scenario(wire: AsgiClient) -> None:
        await pod(wire, "web-0")
        await pod(wire, "web-1")
        body = {"metadata": {"name": "strict"}, "spec": {**limit, "selector": SELECTOR}}
        answer = await wire("POST", PDBS, body)
        assert answer.status == 201
        assert ("strict: " in answer.headers.get("warning", "")) == warned
        assert ("cannot be drained" in answer.headers.get("warning", "")) == warned

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


def test_warning_mentions_floors_of_the_policy() -> None:
    async def scenario(wire: AsgiClient) -> None:
        policy = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "DisruptionPolicy", "metadata": {"name": "default"}}
        assert (await wire("POST", POLICY, {**policy, "spec": {"floors": [{"minMaxUnavailable": 1}]}})).status == 201
        body = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 0, "selector": SELECTOR}}
        assert "unless a floor" in (await wire("POST", PDBS, body)).headers["warning"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)


@pytest.mark.parametrize("rate", ["often", "1/", "0/1h", "1001/1h", "1/1h and a bit", "1/0s"])
def test_invalid_rate_annotation_returns_a_warning(rate: str) -> None:
    async def scenario(wire: AsgiClient) -> None:
        body = {"metadata": {"name": "web", "annotations": {RATE_ANNOTATION: rate}}, "spec": {"selector": SELECTOR}}
        answer = await wire("POST", PDBS, body)
        assert answer.status == 201
        assert "use for example 1/1h" in answer.headers["warning"]

    with_asgi_client(scenario, check_all_budgets=True, garbage_collection=False)
