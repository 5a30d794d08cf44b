"""The memory of the authorizer's cache is bounded."""

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.decision_cache import DecisionCache
from trimtab.server.auth.user import User

LIMIT = 8 * 1024 * 1024


def test_decision_is_remembered() -> None:
    cache = DecisionCache()
    action = Action("get", path="/api")
    assert cache.get(ALICE, action) is None
    cache.add(ALICE, action, False)
    assert cache.get(ALICE, action) is False
    cache.clear()
    assert (cache.get(ALICE, action), cache.size) == (None, 0)


def test_long_texts_are_not_remembered() -> None:
    cache = DecisionCache()
    long = "x" * 60_000
    cache.add(ALICE, Action("get", path=long), True)
    cache.add(User(long), Action("get"), True)
    cache.add(User("a", (long,)), Action("get"), True)
    cache.add(User("a", (), "", (("key", (long,)),)), Action("get"), True)
    assert (len(cache), cache.size) == (0, 0)


def test_many_texts_stay_below_the_limit() -> None:
    cache = DecisionCache()
    for number in range(30_000):
        cache.add(ALICE, Action("get", path=f"/{number}{'x' * 300}"), False)
        assert cache.size <= LIMIT
    assert len(cache) > 0


def test_anonymous_requests_do_not_fill_the_cache() -> None:
    async def scenario(client: AsgiClient) -> None:
        for number in range(200):
            response = await client("GET", f"/{number}/{'x' * 6_000}", user=None)
            assert response.status == 403
        assert client.server.authorizer.cached_bytes < 1024 * 1024

    with_asgi_client(scenario)
