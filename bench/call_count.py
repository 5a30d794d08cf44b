"""The number of function calls that Python makes: a cost that does not depend on how busy the machine is."""

import cProfile
import pstats
from collections.abc import Awaitable


async def calls_during(step: Awaitable[object]) -> int:
    profile = cProfile.Profile()
    profile.enable()
    await step
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
