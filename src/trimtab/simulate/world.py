"""All simulated member clusters of a process, on the wall clock or on a virtual one."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

from trimtab.api.profile import TRIMTAB, Profile
from trimtab.clock import Clock, LoopClock
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member import MemberEnvironment, SimulatedMember


class World:
    """The members by name. All randomness comes from one seed, so runs on a virtual loop are repeatable."""

    def __init__(
        self,
        fleet: FleetPlan,
        *,
        seed: int = 0,
        clock: Clock | None = None,
        profile: Profile = TRIMTAB,
        directory: Path | None = None,
    ) -> None:
        self.fleet = fleet
        self._seed = seed
        self._clock = clock or LoopClock()
        self._profile = profile
        self._directory = directory
        self.members: dict[str, SimulatedMember] = {}
        for plan in fleet.members:
            self._create_member(plan)

    def _create_member(self, plan: MemberPlan) -> SimulatedMember:
        rng = random.Random(f"{self._seed}/{plan.name}")  # noqa: S311 - a simulation must be repeatable
        environment = MemberEnvironment(self._clock, self._profile, rng, self._directory)
        member = SimulatedMember(plan, self.fleet, environment)
        self.members[plan.name] = member
        return member

    def __getitem__(self, name: str) -> SimulatedMember:
        return self.members[name]

    def __iter__(self) -> Iterator[SimulatedMember]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    async def start(self) -> None:
        for member in self:
            await member.start()

    async def stop(self) -> None:
        await asyncio.gather(*(member.stop() for member in self))

    async def add(self, plan: MemberPlan) -> SimulatedMember:
        """Add a member cluster and start it."""
        if plan.name in self.members:
            raise ValueError(f"member {plan.name} already exists")
        member = self._create_member(plan)
        await member.start()
        return member

    async def remove(self, name: str) -> None:
        """Stop the member cluster and remove it, with everything in it."""
        await self.members.pop(name).stop()
