"""All simulated member clusters of a process, on the wall clock or on a virtual one."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

from trimtab.api.profile import TRIMTAB, Profile
from trimtab.clock import Clock, LoopClock
from trimtab.errors import InputError
from trimtab.server.background.start_image import StartImage
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.lean.member import LeanMember
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.member_server import MemberEnvironment

Member = SimulatedMember | LeanMember


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
        whole_clusters: bool = False,
        flow_control: FlowController | None = None,
    ) -> None:
        self.fleet = fleet
        self._seed = seed
        self._clock = clock or LoopClock()
        self._profile = profile
        self._directory = directory
        self._whole_clusters = whole_clusters
        self._flow_control = flow_control
        self.members: dict[str, Member] = {}
        self._started: set[str] = set()
        self._start_images: dict[type[Member], StartImage] = {LeanMember: StartImage(), SimulatedMember: StartImage()}
        for plan in fleet.members:
            self._create_member(plan)

    def _create_member(self, plan: MemberPlan) -> Member:
        rng = random.Random(f"{self._seed}/{plan.name}")  # noqa: S311 - a simulation must be repeatable
        disabled = frozenset(self.fleet.disable_admission_plugins)
        member_type = LeanMember if self.fleet.is_lean(plan) else SimulatedMember
        environment = MemberEnvironment(
            self._clock,
            self._profile,
            rng,
            self._directory,
            self._whole_clusters,
            self._flow_control,
            disabled,
            self._start_images[member_type],
            self.fleet.anonymous_auth,
            self.fleet.has_old_streamed_lists,
        )
        member: Member = member_type(plan, self.fleet, environment)
        self.members[plan.name] = member
        return member

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def with_pods(self, name: str) -> SimulatedMember:
        """The member, whose nodes and pods can be changed; a lean one has none."""
        member = self.members[name]
        if isinstance(member, LeanMember):
            raise InputError(f"{name} is a lean member: it counts replicas, and has no pods or nodes that could change")
        return member

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def __len__(self) -> int:
        return len(self.members)

    async def start(self) -> None:
        for member in self:
            await self._start_member(member)

    async def _start_member(self, member: Member) -> None:
        await member.start()
        self._started.add(member.name)

    async def stop(self) -> None:
        """Stop the members that were started: a process may end before, when it cannot serve."""
        started, self._started = self._started, set()
        await asyncio.gather(*(member.stop() for member in self if member.name in started))

    async def add(self, plan: MemberPlan) -> Member:
        """Add a member cluster and start it."""
        if plan.name in self.members:
            raise ValueError(f"member {plan.name} already exists")
        member = self._create_member(plan)
        await self._start_member(member)
        return member

    async def remove(self, name: str) -> None:
        """Stop the member cluster and remove it, with everything in it."""
        self._started.discard(name)
        await self.members.pop(name).stop()
