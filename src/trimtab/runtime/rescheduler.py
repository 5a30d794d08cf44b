"""The rescheduler at work: looks at a cluster round by round, thinks, evicts through the door, and sees what comes of it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import yaml

from trimtab import plugins
from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.kinds.native.disruption import PodDisruptionBudget
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.profile import Profile
from trimtab.api.value import Object, Raw
from trimtab.client.client import Client, resource_of
from trimtab.clock import Clock
from trimtab.controllers.contract import Note
from trimtab.controllers.marks import ref_of_raw
from trimtab.decide.pods.policy import DeschedulerPolicy, moves, read_policy
from trimtab.decide.reschedule.history import DONE, History
from trimtab.decide.reschedule.objectives import objectives
from trimtab.decide.reschedule.picture import Facts, Measures, Picture
from trimtab.decide.reschedule.plan import SHORT, Move, Plan, made, plan
from trimtab.decide.reschedule.settings import Settings, read_settings
from trimtab.errors import AlreadyExists, ApiFault, Conflict, InputFault, NotFound
from trimtab.runtime.evicting import evict, eviction, why
from trimtab.runtime.notes import Recorder

NAMESPACE, NAME, STATE = "kube-system", "trimtab-rescheduler", "trimtab-rescheduler-state"
CONFIGS = resource_of(kind_of(ConfigMap))
IDLE_SECONDS = 60.0
SEEN: tuple[type[Object], ...] = (Node, Pod, Deployment, ReplicaSet, StatefulSet, PodDisruptionBudget, Namespace)
log = logging.getLogger("trimtab.rescheduler")
T = TypeVar("T", bound=Object)
Measure = Callable[[Sequence[Pod]], Measures | None]


def unmeasured(pods: Sequence[Pod]) -> Measures | None:
    """There is no source of measurements: objectives that need one are off."""
    return None


class Config(NamedTuple):
    """What the ConfigMap says: settings of ours, or a policy of the descheduler with them."""

    settings: Settings
    policy: DeschedulerPolicy | None = None


def read_config(data: dict[str, str]) -> Config:
    """Read the ConfigMap; raises `InputFault` in words that belong into an event."""
    plugins.load()
    known = {one.name: one.args for one in objectives.values()}
    try:
        if "policy.yaml" in data:
            policy = read_policy(yaml.safe_load(data["policy.yaml"]) or {})
            settings = read_settings(yaml.safe_load(data.get("rescheduler.yaml", "")), known)
            return Config(settings, policy)
        return Config(read_settings(yaml.safe_load(data.get("rescheduler.yaml", "")), known))
    except yaml.YAMLError as fault:
        raise InputFault(f"not YAML: {fault}") from fault


class Rescheduler:
    """One loop over one cluster, through any API server."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        profile: Profile,
        measure: Measure = unmeasured,
        fixed: Config | None = None,
    ) -> None:
        self._client, self._clock, self._profile, self._measure = client, clock, profile, measure
        self._fixed = fixed
        self._recorder = Recorder(client)
        self._config: Config | None = fixed
        self._version = ""
        self._history: History | None = None
        self.complaint = ""
        """Why the newest configuration is not in force; empty when it is."""
        self.last: Plan | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def configured(self) -> bool:
        return self._config is not None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self.run(), name="rescheduler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def run(self) -> None:
        while True:
            try:
                await self.round()
            except (ApiFault, OSError, TimeoutError) as fault:
                log.warning("the round failed: %s", fault)
            await asyncio.sleep(self._config.settings.seconds if self._config else IDLE_SECONDS)

    # one round

    async def round(self) -> Plan | None:
        """Look, think, move, remember; None when nothing is configured."""
        await self._configure()
        if self._config is None:
            return None
        picture, found = await self.think()
        history = found.history
        for move in found.moves:
            if await self._move(move):
                history = history.with_moves([made(move, picture)], picture.now)
        await self._remember(history)
        self.last = found
        return found

    async def think(self, *, confirmations: int | None = None) -> tuple[Picture, Plan]:
        """What a round would do, without doing it."""
        if self._config is None:
            raise InputFault(f"there is no ConfigMap {NAMESPACE}/{NAME}")
        facts = await self._look()
        now = self._clock.now()
        picture = Picture(facts, self._config.settings, await self._recall(), now)
        if self._config.policy is None:
            return picture, plan(picture, confirmations=confirmations)
        return picture, self._by_policy(picture, self._config.policy)

    def _by_policy(self, picture: Picture, policy: DeschedulerPolicy) -> Plan:
        """The moves of a DeschedulerPolicy: its own plugins choose, our door lets them go."""
        chosen = moves(policy, picture.scene, self._profile)
        found = tuple(Move(one.pod, one.node, "", one.strategy, 0.0, one.reason) for one in chosen)
        return Plan(found, (), picture.history)

    async def configure(self) -> None:
        """Read the configuration once, for those who do not run rounds."""
        await self._configure()
        if self.complaint and self._config is None:
            raise InputFault(self.complaint)

    async def _configure(self) -> None:
        if self._fixed is not None:
            return
        try:
            raw = await self._client.get(CONFIGS, NAMESPACE, NAME)
        except NotFound:
            self._config, self._version, self.complaint = None, "", ""
            return
        if raw["metadata"]["resourceVersion"] == self._version:
            return
        self._version = raw["metadata"]["resourceVersion"]
        try:
            self._config, self.complaint = read_config(raw.get("data") or {}), ""
        except InputFault as fault:
            self.complaint = str(fault)
            kept = "the one before stays in force" if self._config else "nothing is rescheduled"
            await self._tell(raw, "BadConfiguration", f"{fault}; {kept}", warning=True)

    async def _look(self) -> Facts:
        nodes, pods, deployments, sets, stateful, budgets, namespaces = [await self._all(type_) for type_ in SEEN]
        own = await self._all(DisruptionBudget)
        seen = cast("Sequence[Pod]", pods)
        return Facts(
            nodes=cast("Any", nodes),
            pods=seen,
            deployments=cast("Any", deployments),
            sets=cast("Any", [*sets, *stateful]),
            budgets=cast("Any", [*budgets, *own]),
            namespaces={one.name: one.metadata.labels for one in namespaces},
            measures=self._measure(seen),
        )

    async def _all(self, type_: type[T]) -> list[T]:
        kind = kind_of(type_)
        try:
            listing = await self._client.list(resource_of(kind))
        except NotFound:
            return []  # a cluster that does not know this kind
        return [cast("T", kind.decode(raw)) for raw in listing.items]

    # moves

    async def _move(self, move: Move) -> bool:
        pod = move.pod.pod
        kind = kind_of(Pod)
        raw = kind.encode(pod)
        noted = {
            "reason": f"{move.objective}: {move.reason}",
            "trimtab.dev/prefer-avoid": "true",
            "trimtab.dev/expect-node": move.expected,
        }
        if move.avoid == SHORT:
            noted["trimtab.dev/prefer-avoid-until"] = f"scheduled:{move.until}"
        try:
            await evict(self._client, raw, eviction(raw, by="rescheduler", annotations=noted))
        except ApiFault as fault:
            log.info("%s/%s stays: %s", pod.namespace, pod.name, why(fault))
            return False
        said = f"moved from {move.source} by the rescheduler ({move.objective}, gain {move.gain:.0f} %): {move.reason}"
        await self._tell(raw, "Rescheduled", said)
        return True

    async def _tell(self, about: Raw, reason: str, message: str, *, warning: bool = False) -> None:
        """An event for people; nothing depends on it."""
        kind = "Warning" if warning else "Normal"
        note = Note(ref_of_raw(about), reason, message, "trimtab-rescheduler", kind)
        await self._recorder.tell(note, self._clock.now())

    # memory

    async def _recall(self) -> History:
        """What earlier rounds remember, also those before a restart."""
        if self._history is None:
            self._history = History()
            with contextlib.suppress(NotFound, msgspec.DecodeError):
                raw = await self._client.get(CONFIGS, NAMESPACE, STATE)
                self._history = msgspec.json.decode((raw.get("data") or {}).get("history.json", "{}"), type=History)
        return self._history

    async def _remember(self, history: History) -> None:
        before, self._history = self._history, history
        if before is not None and before.moves == history.moves:
            return  # what is counted again in the next round need not survive a restart
        data = {"history.json": msgspec.json.encode(history).decode(), "summary": summary(history)}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STATE, "namespace": NAMESPACE},
            "data": data,
        }
        try:
            await self._client.patch(CONFIGS, NAMESPACE, STATE, {"data": data}, manager="trimtab-rescheduler")
        except NotFound:
            with contextlib.suppress(AlreadyExists, Conflict):
                await self._client.create(CONFIGS, body, manager="trimtab-rescheduler")


def summary(history: History) -> str:
    done = sum(move.outcome == DONE for move in history.moves)
    wasted = sum(move.wasted for move in history.moves)
    frozen = sorted({move.owner for move in history.moves if history.frozen(move.owner)})
    told = f"{len(history.moves)} moves in a day, {done} arrived, {wasted} wasted"
    return f"{told}; left alone for good: {', '.join(frozen)}" if frozen else told
