"""Recorded flows of a live Karmada control plane pass on a real kube-apiserver exactly as on the embedded server."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from compat.flow_compare import Difference
from compat.flows import AS_RECORDED, EVENTS, FLOWS, Exemption, Flow, exemptions
from kube.fleet import CLUSTERS, NAMESPACES, PATIENCE_SECONDS, POLL_SECONDS, WORKS, RealFleet, Watched, all_ready, until
from kube.workloads import is_gone

from trimtab.api.kinds.policy import Placement
from trimtab.client.client import Client, Listing, Resource
from trimtab.decide.request import Ask, plan_of
from trimtab.errors import NotFound
from trimtab.runtime.cache import Entry
from trimtab.simulate.fleet import flows_fleet

PLAYED = sorted(path.parent for path in FLOWS.glob("*/input.yaml"))
QUIET_SECONDS = 2.0
"""What must not happen is believed not to happen when nothing was amiss for so long."""
CLUSTER_WIDE = ("ClusterPropagationPolicy", "ResourceInterpreterCustomization", "WorkloadRebalancer", "ClusterRole")
OF_ANOTHER_RELEASE = [
    Exemption("members", "* .status.terminatingReplicas", "written by the newer release that was recorded"),
    Exemption("*", "*updateStrategy.rollingUpdate.maxUnavailable", "the newer release fills in a default"),
    Exemption("*", "*template.metadata.creationTimestamp", "the newer release leaves the null out"),
]


class Excuses:
    """Differences that are expected by rule, and the rules that were needed."""

    def __init__(self) -> None:
        self.rules = [*exemptions(), *OF_ANOTHER_RELEASE]
        self.needed: set[Exemption] = set()

    def sift(self, found: list[Difference]) -> tuple[list[Difference], set[Exemption]]:
        """What no rule covers, and the rules that cover the rest."""
        covering = [(difference, next((r for r in self.rules if r.covers(difference)), None)) for difference in found]
        return [d for d, rule in covering if rule is None], {rule for _, rule in covering if rule is not None}


class Owners:
    """To which flow a Work belongs: its events outlive it, and tell only its name."""

    def __init__(self) -> None:
        self._manifests: dict[str, list[dict[str, Any]]] = {}

    def heard(self, _: Entry | None, new: Entry | None) -> None:
        if new is not None:
            manifests = new.raw["spec"]["workload"]["manifests"]
            self._manifests[new.name[1]] = [manifest["metadata"] for manifest in manifests]

    def is_of(self, namespace: str, work: str) -> bool:
        return any(
            manifest["namespace"] == namespace if manifest.get("namespace") else manifest["name"].startswith(namespace)
            for manifest in self._manifests.get(work, ())
        )


class Host(Watched):
    """The host as one flow sees it: without what other flows are told, and with uids of the recorded kind."""

    def __init__(self, fleet: RealFleet, flow: Flow, owners: Owners) -> None:
        super().__init__(fleet.client, fleet.seen.cache)
        self._flow = flow
        self._owners = owners

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        listing = await super().list(resource, namespace)
        if resource.id != EVENTS.id:
            return listing
        return Listing([event for event in listing.items if self._concerns_us(event["involvedObject"])], "")

    def _concerns_us(self, about: dict[str, Any]) -> bool:
        return about["kind"] != "Work" or self._owners.is_of(self._flow.namespace, about["name"])

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **more: Any) -> dict[str, Any]:
        """Ties in a division are broken by the template's uid, which a real server draws: draw until it leans alike.

        Only while no policy of the flow is there: what is propagated already cannot be drawn again.
        """
        recorded = self._flow.expect["uids"].get(f"{resource.kind}/{namespace}/{name}")
        born: dict[str, Any] = await self._client.patch(resource, namespace, name, patch, **more)
        divided = recorded is not None and "replicas" in (born.get("spec") or {})
        if not divided or born["metadata"]["generation"] > 1 or await self._propagates():
            return born
        while leans_back(born["metadata"]["uid"]) != leans_back(recorded):
            await self._client.delete(resource, namespace, name)
            born = await self._client.patch(resource, namespace, name, patch, **more)
        return born

    async def _propagates(self) -> bool:
        kinds = [self._flow.resources[kind] for kind in ("PropagationPolicy", "ClusterPropagationPolicy")]
        policies = [policy["metadata"] for kind in kinds for policy in (await self._client.list(kind)).items]
        return any(
            self._flow.namespace in (policy.get("namespace"), policy["name"][: len(self._flow.namespace)])
            for policy in policies
        )


def leans_back(uid: str) -> bool:
    return Ask(plan=plan_of(Placement()), uid=uid).leans_back


class RealStage:
    """Where one flow is played, beside others or alone."""

    def __init__(self, fleet: RealFleet, flow: Flow, owners: Owners, excuses: Excuses) -> None:
        self._fleet = fleet
        self._excuses = excuses
        self.client: Client = cast("Client", Host(fleet, flow, owners))

    @property
    def members(self) -> Mapping[str, Client]:
        return self._fleet.members

    def look_into(self, member: str) -> Client:
        return self._fleet.real[member].inside

    async def stop_api(self, member: str) -> None:
        await self._fleet.real[member].stop_api()

    async def start_api(self, member: str) -> None:
        await self._fleet.real[member].start_api()

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        """Wait until there is no difference for a while, or until patience ends."""
        deadline = time.monotonic() + seconds + PATIENCE_SECONDS
        quiet_since: float | None = None
        while True:
            left, needed = self._excuses.sift(await compare())
            now = time.monotonic()
            quiet_since = None if left else quiet_since or now
            if now > deadline or (quiet_since is not None and now - quiet_since >= QUIET_SECONDS):
                self._excuses.needed |= needed
                return left
            await asyncio.sleep(POLL_SECONDS)


class Theatre:
    """The fleet, and all flows that are played on it."""

    def __init__(self, fleet: RealFleet) -> None:
        self.fleet = fleet
        self.excuses = Excuses()
        self._owners = Owners()
        self.played: dict[str, list[Difference] | BaseException] = {}

    async def open(self) -> None:
        works = self.fleet.seen.cache.table(WORKS)
        works.listen(self._owners.heard)
        await works.synced.wait()

    async def play(self, *flows: Flow) -> None:
        """Play these flows side by side, and leave the fleet as it was found."""
        await until(lambda: everything_is_free(self.fleet))
        outcomes = await asyncio.gather(*map(self._play, flows), return_exceptions=True)
        self.played |= {flow.folder.name: outcome for flow, outcome in zip(flows, outcomes, strict=True)}

    async def play_again(self, flow: Flow) -> None:
        """As if it had never been played: nothing is left of it, not even what was told."""
        await until(lambda: is_gone(self.fleet, flow.namespace))
        for event in (await self.fleet.client.list(EVENTS)).items:
            about = event["involvedObject"]
            if about["kind"] == "Work" and self._owners.is_of(flow.namespace, about["name"]):
                with contextlib.suppress(NotFound):
                    await self.fleet.client.delete(EVENTS, event["metadata"]["namespace"], event["metadata"]["name"])
        await self.play(flow)

    async def _play(self, flow: Flow) -> list[Difference]:
        await flow.begin(RealStage(self.fleet, flow, self._owners, self.excuses))
        try:
            await until(lambda: has_namespace(self.fleet, flow.namespace))
            return [difference async for difference in flow.steps()]
        finally:
            await clean(self.fleet, flow)


def keeps_to_itself(flow: Flow) -> bool:
    """Whether others may be played beside it: it changes nothing they share, and does not care what room they take."""
    texts = json.dumps(flow.script["steps"])
    shared = ('"Cluster"', "ResourceInterpreterCustomization", "member-apiserver")
    by_room = ("dynamicWeight", "Aggregated", "spreadConstraints")
    return not any(word in texts for word in (*shared, *by_room))


@pytest.fixture(scope="module")
def theatre(fleet: RealFleet, request: pytest.FixtureRequest) -> Iterator[Theatre]:
    """Flows that keep to themselves have been played when this opens; the others are played one by one."""
    settings = [f"--set={name}={str(value).lower()}" for name, value in AS_RECORDED.items()]
    asked = {item.callspec.params["folder"] for item in request.session.items if is_a_flow(item)}
    crowd = [flow for flow in map(Flow, sorted(asked)) if keeps_to_itself(flow)]
    fleet.loop.do(fleet.reshape(flows_fleet()))
    with fleet.controllers("flows", "--profile=upstream", "--status-seconds=2", *settings):
        theatre = Theatre(fleet)
        fleet.loop.do(theatre.open())
        fleet.loop.do(theatre.play(*crowd))
        yield theatre


def is_a_flow(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.originalname == "test_a_recorded_flow"


@pytest.mark.parametrize("folder", PLAYED, ids=lambda folder: folder.name)
def test_a_recorded_flow(theatre: Theatre, folder: Path) -> None:
    if folder.name not in theatre.played:
        theatre.fleet.loop.do(theatre.play(Flow(folder)))
    found = theatre.played[folder.name]
    if found and Flow(folder).expect["timingDependent"]:  # as recorded: on a busy machine it may take another turn
        theatre.fleet.loop.do(theatre.play_again(Flow(folder)))
        found = theatre.played[folder.name]
    if isinstance(found, BaseException):
        raise found
    assert not found, "\n".join(map(str, found[:20]))


def test_every_excuse_is_needed(theatre: Theatre) -> None:
    if len(theatre.played) < len(PLAYED):
        pytest.skip("only after all flows have been played can an excuse be called needless")
    assert [rule.path for rule in theatre.excuses.rules if rule not in theatre.excuses.needed] == []


async def everything_is_free(fleet: RealFleet) -> bool:
    """Every member is ready with all its nodes, and no pod takes room there: as every flow found it."""
    return await all_ready(fleet) and all(map(is_free, (await fleet.client.list(CLUSTERS)).items))


def is_free(cluster: dict[str, Any]) -> bool:
    allocated = (cluster["status"].get("resourceSummary") or {}).get("allocated") or {}
    return all(amount in ("0", 0) for amount in allocated.values()) and not cluster["spec"].get("taints")


async def has_namespace(fleet: RealFleet, name: str) -> bool:
    for member in fleet.members.values():
        try:
            await member.get(NAMESPACES, "", name)
        except NotFound:
            return False
    return True


async def clean(fleet: RealFleet, flow: Flow) -> None:
    """Leave the fleet as it was found; what runs in the members goes with the namespace."""
    for kind in CLUSTER_WIDE:
        resource = flow.resources[kind]
        for obj in (await fleet.client.list(resource)).items:
            if obj["metadata"]["name"].startswith(flow.namespace):
                with contextlib.suppress(NotFound):
                    await fleet.client.delete(resource, "", obj["metadata"]["name"])
    if not keeps_to_itself(flow):
        for cluster in (await fleet.client.list(CLUSTERS)).items:
            if cluster["spec"].get("taints"):
                await fleet.client.patch(CLUSTERS, "", cluster["metadata"]["name"], {"spec": {"taints": None}})
    await fleet.client.delete(NAMESPACES, "", flow.namespace)
