"""A body is posted to one address, a limited number of times."""

import asyncio

import aiohttp

from collector import collecting
from trimtab.client.delivery import Delivery


async def post(*codes: int, attempts: int = 3) -> tuple[str, int]:
    """Why the body was not accepted, and how often it was sent."""
    async with collecting(*codes) as receiver, aiohttp.ClientSession() as session:
        delivery = Delivery(receiver.endpoint, 0.01, attempts)
        problem = await delivery.post(session, b"{}", {"Content-Type": "application/json"})
        return problem, len(receiver.paths)


def test_server_errors_are_tried_again_until_the_limit() -> None:
    assert asyncio.run(post(500, 503)) == ("", 3)
    assert asyncio.run(post(500, 503, 500)) == ("HTTP 500", 3)


def test_refusals_that_cannot_pass_and_redirects_are_not_tried_again() -> None:
    assert asyncio.run(post(400)) == ("HTTP 400", 1)
    assert asyncio.run(post(307)) == ("HTTP 307", 1)
    assert asyncio.run(post(429)) == ("", 2)
