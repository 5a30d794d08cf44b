import asyncio
from datetime import UTC, datetime, timedelta

from trimtab.clock import run_virtually
from trimtab.simulate.kubelets.loop_times import LoopTimes


class SettableClock:
    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_000_000 + asyncio.get_running_loop().time(), tz=UTC) + self.offset


def test_wall_time_of_a_moment_changes_only_when_a_clock_is_set() -> None:
    async def scenario() -> None:
        clock = SettableClock()
        times = LoopTimes(clock)
        times.synchronize()
        moment, first = times.now(), times.to_wall_time(times.now())
        clock.offset = timedelta(seconds=0.4)
        assert times.to_wall_time(moment) == first
        clock.offset = timedelta(hours=1)
        assert times.to_wall_time(moment) == first + timedelta(hours=1)

    run_virtually(scenario())
