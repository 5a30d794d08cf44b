"""Lists with selectors that take long to evaluate leave the event loop free."""

import threading

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.registry.selector_matching import RequestSelector

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 60


async def fill(client: AsgiClient) -> None:
    for number in range(COUNT):
        labels = {"parity": "even" if number % 2 == 0 else "odd"}
        await client("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number:02}", "labels": labels}})


@pytest.fixture
def matching_threads(monkeypatch: pytest.MonkeyPatch) -> set[bool]:
    """Whether the main thread, or another one, compared objects with selectors."""
    found: set[bool] = set()
    matches = RequestSelector.matches

    def noted(selector: RequestSelector, value: bytes) -> bool:
        found.add(threading.current_thread() is threading.main_thread())
        return matches(selector, value)

    monkeypatch.setattr(RequestSelector, "matches", noted)
    return found


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=" + ",".join(f"parity!=x{number}" for number in range(900)),
        "fieldSelector=" + ",".join(f"metadata.namespace!=x{number}" for number in range(900)),
    ],
)
def test_selector_with_many_requirements_is_evaluated_in_a_thread(matching_threads: set[bool], query: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        matching_threads.clear()
        names = [item["metadata"]["name"] for item in (await client("GET", f"{CONFIG_MAPS}?{query}")).json()["items"]]
        assert len([name for name in names if name.startswith("c")]) == COUNT

    with_asgi_client(scenario)
    assert matching_threads == {False}


def test_short_selector_is_evaluated_at_once_and_pages_continue(matching_threads: set[bool]) -> None:
    async def scenario(client: AsgiClient) -> None:
        await fill(client)
        matching_threads.clear()
        path, names = f"{CONFIG_MAPS}?labelSelector=parity%3Deven&limit=7", []
        page = (await client("GET", path)).json()
        while True:
            assert len(page["items"]) <= 7
            assert "remainingItemCount" not in page["metadata"]
            names += [item["metadata"]["name"] for item in page["items"]]
            if not (token := page["metadata"].get("continue")):
                break
            page = (await client("GET", f"{path}&continue={token}")).json()
        assert names == [f"c{number:02}" for number in range(0, COUNT, 2)]

    with_asgi_client(scenario)
    assert matching_threads == {True}
