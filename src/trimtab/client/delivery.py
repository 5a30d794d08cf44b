"""Posts a body to an address of the operator's choice, with retries.

Redirects are not followed: they could lead to an address that nobody has chosen. Certificates are checked. A response is read only
as far as its status.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp

MAX_ATTEMPTS = 6
FIRST_DELAY_SECONDS = 1.0
MAX_DELAY_SECONDS = 60.0
TIMEOUT = aiohttp.ClientTimeout(total=10.0, connect=5.0)
RETRIED_CODES = (408, 425, 429)
"""Client errors that may pass; all others would be the same the next time."""


class Delivery(NamedTuple):
    """Where and how bodies are sent."""

    url: str
    first_delay: float = FIRST_DELAY_SECONDS
    max_attempts: int = MAX_ATTEMPTS

    async def post(self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str]) -> str:
        """Send the body; returns why it was not accepted, or an empty text."""
        delay = self.first_delay
        problem = ""
        for attempt in range(self.max_attempts):
            if attempt:
                await asyncio.sleep(delay)
                delay = min(MAX_DELAY_SECONDS, 2 * delay)
            try:
                async with session.post(self.url, data=body, headers=headers, allow_redirects=False) as response:
                    code, wait = response.status, response.headers.get("Retry-After", "")
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if 200 <= code < 300:
                return ""
            problem = f"HTTP {code}"
            if code < 500 and code not in RETRIED_CODES:
                break
            if wait.isascii() and wait.isdigit():
                delay = min(MAX_DELAY_SECONDS, max(delay, float(wait)))
        return problem
