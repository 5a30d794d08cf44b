"""Random steps on a fleet of processes: changes that users make, and faults that happen meanwhile."""

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from move_helpers import aggregated, divided, dynamic

from soak.checker import CLOCK_BACK, outcome_of, violations
from soak.fleet import CONFIG_MAPS, Fleet
from soak.history import FaultFact, MoveFact
from soak.recorder import DEPLOYMENTS
from soak.snapshot import NAMESPACE, complaints
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.value import Raw
from trimtab.cli.commands.drain_cluster import DrainMarks, start_drain, update_marks
from trimtab.client.client import resource_of
from trimtab.controllers.movement.move_start import PAUSE_AFTER_REVERT
from trimtab.controllers.well_known import MOVE_MODE
from trimtab.errors import ApiError, InputError

FIRST_APPS = 4
FIRST_SECONDS = 8.0
"""Time for the first apps to start, so that there is something to lose."""
MAX_APPS = 6
NEVER_AT_ONCE = {MOVE_MODE: "ReplacementFirst"}
"""Without it, an edit of a policy moves a workload without a budget at once."""
GROUPS = ("one-at-once", "slow", "free")
"""Apps of the first two groups have a budget."""
BUDGETS: dict[str, Raw] = {
    "one-at-once": {"maxConcurrent": 1},
    "slow": {"rate": {"disruptions": 2, "period": "20s"}},
}
SETTLE_SECONDS = PAUSE_AFTER_REVERT.total_seconds() + 300.0
"""A cluster leaves only after the next attempt of a move that was reverted during the last faults."""
EDIT_ATTEMPTS = 20
FORWARD = (45.0, 600.0, 7200.0, 8_640_000.0)
JUMPS = {"plane": (-3600.0, -30.0, *FORWARD)}
"""Seconds by which clocks jump; a member that is set back by more than a minute refuses its own new tokens for so long."""
Step = Callable[[], Awaitable[None]]


class Driver:
    """Chooses the steps of one run from a seed."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._rng = random.Random(f"chaos {seed}")
        self._apps: list[str] = []
        self._numbers = 0
        self._faults: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self.steps: list[str] = []
        changes = [
            (self.create_app, 2),
            (self.delete_app, 1),
            (self.scale_app, 2),
            (self.edit_policy, 6),
            (self.rebalance, 3),
            (self.drain, 4),
            (self.uncordon, 4),
            (self.leave, 2),
            (self.rejoin, 2),
            (self.note, 2),
        ]
        faults = [
            (self.kill_plane, 3),
            (self.pause_plane, 1),
            (self.jump_plane, 1),
            (self.fill_disk, 1),
            (self.kill_member, 2),
            (self.pause_member, 1),
            (self.cut_member, 2),
            (self.jump_member, 1),
        ]
        self._choices: list[Step] = [step for step, weight in [*changes, *faults] for _ in range(weight)]

    async def run(self, steps: int) -> list[str]:
        """Carry out so many steps, end all faults, wait until the fleet is at rest; returns what went wrong."""
        for group, spec in BUDGETS.items():
            selector = {"matchLabels": {"group": group}}
            await self._fleet.create(
                DisruptionBudget,
                {"metadata": {"name": group, "namespace": NAMESPACE}, "spec": {"selector": selector, **spec}},
            )
        for _ in range(FIRST_APPS):
            await self.create_app()
        await asyncio.sleep(FIRST_SECONDS)
        for _ in range(steps):
            step = self._rng.choice(self._choices)
            self._log(step.__name__)
            with contextlib.suppress(ApiError, OSError, TimeoutError, InputError):
                await step()
            await asyncio.sleep(self._rng.choice((0.0, 0.5, 2.0, 5.0)))
        found = await self._settle()
        return [*found, *self._fleet.refusals, *violations(self._fleet.recorder.history)]

    def _log(self, text: str) -> None:
        self.steps.append(f"{self._fleet.recorder.now:.1f} {text}")

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # changes of users

    async def create_app(self) -> None:
        if len(self._apps) >= MAX_APPS:
            return
        app = f"app{self._number()}"
        replicas = self._rng.randint(2, 5)
        labels = {"app": app, "group": self._rng.choice(GROUPS)}
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
        body = {
            "metadata": {"name": app, "namespace": NAMESPACE, "labels": labels, "annotations": NEVER_AT_ONCE},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}},
            },
        }
        self._apps.append(app)
        await self._fleet.create(DEPLOYMENTS, body, replicas)
        variant, placement = self._placement()
        spec = {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app}],
            "placement": placement,
        }
        metadata = {"name": app, "namespace": NAMESPACE, "labels": {"variant": variant}}
        await self._fleet.create(PropagationPolicy, {"metadata": metadata, "spec": spec}, variant)

    def _placement(self) -> tuple[str, Raw]:
        names = sorted(self._fleet.members)
        some = self._rng.sample(names, 2)
        weights = [(name, self._rng.randint(1, 3)) for name in names]
        kinds: dict[str, Raw] = {
            "divided": divided(*weights),
            "aggregated": aggregated(*names),
            "dynamic": dynamic(*names),
            "one": aggregated(some[0]),
            "other": aggregated(some[1]),
            "two": aggregated(*some),
            "duplicated": {"clusterAffinity": {"clusterNames": some}},
        }
        kind = self._rng.choice(sorted(kinds))
        return f"{kind}-{self._number()}", kinds[kind]

    async def delete_app(self) -> None:
        if len(self._apps) > 2:
            app = self._apps.pop(self._rng.randrange(len(self._apps)))
            await self._fleet.delete(DEPLOYMENTS, app)
            await self._fleet.delete(PropagationPolicy, app)

    async def scale_app(self) -> None:
        replicas = self._rng.randint(1, 6)
        await self._fleet.patch(DEPLOYMENTS, self._rng.choice(self._apps), {"spec": {"replicas": replicas}}, replicas)

    async def edit_policy(self) -> None:
        await self._edit_policy(self._rng.choice(self._apps), *self._placement())

    async def _edit_policy(self, app: str, variant: str, placement: Raw) -> bool:
        full = {"clusterAffinity": None, "replicaScheduling": None, **placement}

        async def edit() -> None:
            resource = resource_of(kind_of(PropagationPolicy))
            found = await self._fleet.host.get(resource, NAMESPACE, app)
            metadata = {**found["metadata"], "labels": {**found["metadata"]["labels"], "variant": variant}}
            spec = {**found["spec"], "placement": {k: v for k, v in full.items() if v is not None}}
            await self._fleet.host.replace(resource, {**found, "metadata": metadata, "spec": spec})

        return await self._fleet.write(f"PropagationPolicy {app}", variant, edit)

    async def rebalance(self) -> None:
        apps = self._rng.sample(self._apps, min(len(self._apps), 2))
        workloads = [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": a} for a in apps]
        body = {"metadata": {"name": f"again{self._number()}"}, "spec": {"workloads": workloads}}
        await self._fleet.create(WorkloadRebalancer, body)

    async def drain(self) -> None:
        await start_drain(self._fleet.host, self._member())

    async def uncordon(self) -> None:
        await self._uncordon(self._member())

    async def _uncordon(self, name: str) -> None:
        await update_marks(self._fleet.host, name, lambda _: DrainMarks(None, cordoned=False))

    async def note(self) -> None:
        """Write an object that nothing else touches."""
        value = str(self._rng.random())
        metadata = {"name": f"note{self._number()}", "namespace": NAMESPACE}
        await self._fleet.create(CONFIG_MAPS, {"metadata": metadata, "data": {"value": value}}, value)

    async def leave(self) -> None:
        """Let one member leave, by the command or by deleting its Cluster; the others stay."""
        name = self._member()
        if not self._leaving:
            by_command = self._rng.random() < 0.5
            self._log(f"leave {name} {by_command=}")
            work = self._unjoin(name) if by_command else self._delete_cluster(name)
            self._leaving[name] = asyncio.get_running_loop().create_task(work)

    async def _unjoin(self, name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trimtab", "unjoin", name),
            *("--kubeconfig", str(self._fleet.plane.kubeconfig), "--timeout", "60"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _delete_cluster(self, name: str) -> None:
        with contextlib.suppress(ApiError, OSError, TimeoutError):
            await self._fleet.host.delete(resource_of(kind_of(Cluster)), "", name)

    async def rejoin(self) -> None:
        for name, task in list(self._leaving.items()):
            if task.done() and await self._fleet.cluster(name) is None and await self._fleet.try_join(name):
                del self._leaving[name]

    def _member(self) -> str:
        return self._rng.choice(sorted(self._fleet.members))

    # faults: each runs beside the next steps and ends by itself

    def _begin(self, target: str, what: str, fault: Callable[[float], Awaitable[None]]) -> None:
        """Begin a fault, unless one of this target is still going on."""
        if (running := self._faults.get(target)) is not None and not running.done():
            return
        seconds = self._rng.choice((0.1, 1.0, 5.0, 25.0))
        self._log(f"{what} {target} for {seconds} s")

        async def disturb() -> None:
            self._fleet.recorder.record_fault(target, what)
            await fault(seconds)
            self._fleet.recorder.record_fault(target, f"end of {what}")

        self._faults[target] = asyncio.get_running_loop().create_task(disturb())

    async def kill_plane(self) -> None:
        async def fault(seconds: float) -> None:
            self._fleet.plane.kill()
            await asyncio.sleep(min(seconds, 5.0))
            await self._fleet.plane.start()
            self._fleet.refusals += await self._fleet.lost_writes()

        self._begin("plane", "kill", fault)

    async def pause_plane(self) -> None:
        async def fault(seconds: float) -> None:
            self._fleet.plane.pause()
            await asyncio.sleep(seconds)
            self._fleet.plane.resume()

        self._begin("plane", "pause", fault)

    async def fill_disk(self) -> None:
        async def fault(seconds: float) -> None:
            self._fleet.is_disk_full = True
            self._fleet.plane.fill_disk()
            await asyncio.sleep(seconds)
            self._fleet.plane.free_disk()
            await asyncio.sleep(1.0)
            self._fleet.is_disk_full = False

        self._begin("plane", "full disk", fault)

    async def jump_plane(self) -> None:
        self._jump("plane", self._fleet.plane.jump_clock)

    async def jump_member(self) -> None:
        name = self._member()
        self._jump(name, self._fleet.members[name].process.jump_clock)

    def _jump(self, target: str, jump: Callable[[float], None]) -> None:
        by = self._rng.choice(JUMPS.get(target, (-30.0, *FORWARD)))

        async def fault(_: float) -> None:
            jump(by)

        self._begin(target, CLOCK_BACK if by < 0 else f"clock forward by {by} s", fault)

    async def kill_member(self) -> None:
        member = self._fleet.members[self._member()]

        async def fault(seconds: float) -> None:
            member.process.kill()
            await asyncio.sleep(seconds)
            await member.process.start()

        self._begin(member.process.name, "kill", fault)

    async def pause_member(self) -> None:
        member = self._fleet.members[self._member()]

        async def fault(seconds: float) -> None:
            member.process.pause()
            await asyncio.sleep(seconds)
            member.process.resume()

        self._begin(member.process.name, "pause", fault)

    async def cut_member(self) -> None:
        member = self._fleet.members[self._member()]

        async def fault(seconds: float) -> None:
            member.relay.cut()
            await asyncio.sleep(seconds * 2)
            member.relay.heal()

        self._begin(member.process.name, "cut", fault)

    # the end

    async def _settle(self) -> list[str]:
        """End every fault and every change, then wait until nothing is left to do."""
        await asyncio.gather(*self._faults.values())
        await asyncio.gather(*self._leaving.values())
        self._log("settle")
        await self._allow_all_members()
        end = time.monotonic() + SETTLE_SECONDS
        left = ["the fleet was never read"]
        while left and time.monotonic() < end:
            try:
                async with asyncio.timeout(60):
                    await self._repair()
                    left = [*complaints(await self._fleet.snapshot()), *await self._fleet.lost_writes()]
            except (ApiError, OSError, TimeoutError, InputError) as fault:
                left = [f"cannot read the fleet: {fault!r}"]
            await asyncio.sleep(1.0)
        self._log("settled" if not left else "not settled")
        self._log(self._summary())
        return left

    def _summary(self) -> str:
        """How much happened, so that a quiet run is not taken for a good one."""
        history = self._fleet.recorder.history
        moves = {fact.move["metadata"]["name"]: fact.move for fact in history if isinstance(fact, MoveFact)}
        causes = Counter(f"{move['spec']['cause']} {outcome_of(move)}" for move in moves.values())
        faults = Counter(fact.what for fact in history if isinstance(fact, FaultFact) and "end" not in fact.what)
        return f"{len(history)} facts, moves {dict(causes)}, faults {dict(faults)}"

    async def _allow_all_members(self) -> None:
        """Let every app run in any member: one that may run in one member only keeps that member from leaving."""
        everywhere = aggregated(*sorted(self._fleet.members))
        for app in self._apps:
            variant = f"everywhere-{self._number()}"
            for _ in range(EDIT_ATTEMPTS):
                if await self._edit_policy(app, variant, everywhere):
                    break
                await asyncio.sleep(0.5)

    async def _repair(self) -> None:
        """Open every member for workloads, and join those that have left."""
        for name in sorted(self._fleet.members):
            cluster: Any = await self._fleet.cluster(name)
            if cluster is None:
                await self._fleet.join(name)
            elif not cluster["metadata"].get("deletionTimestamp") and cluster["spec"].get("taints"):
                await self._uncordon(name)
        for app in {name.split()[1] for name in self._fleet.ledger if name.startswith("Deployment ")} - set(self._apps):
            await self._fleet.delete(DEPLOYMENTS, app)
            await self._fleet.delete(PropagationPolicy, app)
