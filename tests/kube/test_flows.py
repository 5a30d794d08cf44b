"""Recorded flows of a live Karmada control plane end on a real kube-apiserver as on the embedded server."""

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
from trimtab.decide.request import PlacementRequest, parse_placement
from trimtab.errors import NotFound
from trimtab.runtime.cache import CacheEntry
from trimtab.simulate.fleet import flows_fleet

PLAYED = sorted(path.parent for path in FLOWS.glob("*/input.yaml"))
QUIET_SECONDS = 2.0
"""An unwanted change counts as absent when there is no difference for this time."""
CLUSTER_WIDE = ("ClusterPropagationPolicy", "ResourceInterpreterCustomization", "WorkloadRebalancer", "ClusterRole")
OF_ANOTHER_RELEASE = [
    Exemption("members", "* .status.terminatingReplicas", "written by the newer recorded release"),
    Exemption("*", "*updateStrategy.rollingUpdate.maxUnavailable", "the newer release sets a default"),
    Exemption("*", "*template.metadata.creationTimestamp", "the newer release omits the null"),
]


class Excuses:
    """Allowed differences, and the rules that were used."""

    def __init__(self) -> None:
        self.rules = [*exemptions(), *OF_ANOTHER_RELEASE]
        self.needed: set[Exemption] = set()

    def sift(self, found: list[Difference]) -> tuple[list[Difference], set[Exemption]]:
        """The differences that no rule covers, and the rules that cover the others."""
        covering = [(difference, next((r for r in self.rules if r.covers(difference)), None)) for difference in found]
        return [d for d, rule in covering if rule is None], {rule for _, rule in covering if rule is not None}


class Owners:
    """Maps Works to flows: events outlive their Work and contain only its name."""

    def __init__(self) -> None:
        self._manifests: dict[str, list[dict[str, Any]]] = {}

    def heard(self, _: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None:
            manifests = new.raw["spec"]["workload"]["manifests"]
            self._manifests[new.name[1]] = [manifest["metadata"] for manifest in manifests]

    def is_of(self, namespace: str, work: str) -> bool:
        return any(
            manifest["namespace"] == namespace if manifest.get("namespace") else manifest["name"].startswith(namespace)
            for manifest in self._manifests.get(work, ())
        )


class Host(Watched):
    """The host as one flow sees it: without events of other flows, and with uids that break ties as recorded."""

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
        """Recreate a template until its uid breaks ties as the recorded one does: a real server generates uids.

        Only while the flow has no policy: a propagated template cannot be recreated.
        """
        recorded = self._flow.expect["uids"].get(f"{resource.kind}/{namespace}/{name}")
        created: dict[str, Any] = await self._client.patch(resource, namespace, name, patch, **more)
        divided = recorded is not None and "replicas" in (created.get("spec") or {})
        if not divided or created["metadata"]["generation"] > 1 or await self._propagates():
            return created
        while leans_back(created["metadata"]["uid"]) != leans_back(recorded):
            await self._client.delete(resource, namespace, name)
            created = await self._client.patch(resource, namespace, name, patch, **more)
        return created

    async def _propagates(self) -> bool:
        kinds = [self._flow.resources[kind] for kind in ("PropagationPolicy", "ClusterPropagationPolicy")]
        policies = [policy["metadata"] for kind in kinds for policy in (await self._client.list(kind)).items]
        return any(
            self._flow.namespace in (policy.get("namespace"), policy["name"][: len(self._flow.namespace)])
            for policy in policies
        )


def leans_back(uid: str) -> bool:
    return PlacementRequest(placement=parse_placement(Placement()), uid=uid).last_wins_ties


class RealStage:
    """The environment of one flow, which runs alone or beside others."""

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
        """Wait until there is no difference for a while, or until the timeout."""
        deadline = time.monotonic() + seconds + PATIENCE_SECONDS
        quiet_since: float | None = None
        while True:
            remaining, needed = self._excuses.sift(await compare())
            now = time.monotonic()
            quiet_since = None if remaining else quiet_since or now
            if now > deadline or (quiet_since is not None and now - quiet_since >= QUIET_SECONDS):
                self._excuses.needed |= needed
                return remaining
            await asyncio.sleep(POLL_SECONDS)


class Theatre:
    """The fleet and all flows that run on it."""

    def __init__(self, fleet: RealFleet) -> None:
        self.fleet = fleet
        self.excuses = Excuses()
        self._owners = Owners()
        self.played: dict[str, list[Difference] | BaseException] = {}

    async def open(self) -> None:
        works = self.fleet.seen.cache.table(WORKS)
        works.add_listener(self._owners.heard)
        await works.synced.wait()

    async def play(self, *flows: Flow) -> None:
        """Run these flows concurrently and clean up."""
        await until(lambda: everything_is_free(self.fleet))
        outcomes = await asyncio.gather(*map(self._play, flows), return_exceptions=True)
        self.played |= {flow.folder.name: outcome for flow, outcome in zip(flows, outcomes, strict=True)}

    async def play_again(self, flow: Flow) -> None:
        """Run a flow from a clean state, without its earlier events."""
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
    """Whether a flow may run beside others: it changes no shared objects and does not depend on free capacity."""
    texts = json.dumps(flow.script["steps"])
    shared = ('"Cluster"', "ResourceInterpreterCustomization", "member-apiserver")
    by_room = ("dynamicWeight", "Aggregated", "spreadConstraints")
    return not any(word in texts for word in (*shared, *by_room))


@pytest.fixture(scope="module")
def flow_session(fleet: RealFleet, request: pytest.FixtureRequest) -> Iterator[Theatre]:
    """Independent flows run together before the first test; the others run one by one."""
    settings = [f"--set={name}={str(value).lower()}" for name, value in AS_RECORDED.items()]
    requested = {item.callspec.params["folder"] for item in request.session.items if is_a_flow(item)}
    independent = [flow for flow in map(Flow, sorted(requested)) if keeps_to_itself(flow)]
    fleet.loop.do(fleet.reshape(flows_fleet()))
    with fleet.controllers("flows", "--profile=upstream", "--status-seconds=2", *settings):
        flow_session = Theatre(fleet)
        fleet.loop.do(flow_session.open())
        fleet.loop.do(flow_session.play(*independent))
        yield flow_session


def is_a_flow(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.originalname == "test_recorded_flow"


@pytest.mark.parametrize("folder", PLAYED, ids=lambda folder: folder.name)
def test_recorded_flow(flow_session: Theatre, folder: Path) -> None:
    if folder.name not in flow_session.played:
        flow_session.fleet.loop.do(flow_session.play(Flow(folder)))
    found = flow_session.played[folder.name]
    if (
        found and Flow(folder).expect["timingDependent"]
    ):  # a timing-dependent flow may legitimately differ on a busy machine
        flow_session.fleet.loop.do(flow_session.play_again(Flow(folder)))
        found = flow_session.played[folder.name]
    if isinstance(found, BaseException):
        raise found
    assert not found, "\n".join(map(str, found[:20]))


def test_every_allowed_difference_is_needed(flow_session: Theatre) -> None:
    if len(flow_session.played) < len(PLAYED):
        pytest.skip("requires the results of all flows")
    assert [rule.path for rule in flow_session.excuses.rules if rule not in flow_session.excuses.needed] == []


async def everything_is_free(fleet: RealFleet) -> bool:
    """Every member is Ready with all its nodes and runs no pods, as at the start of every flow."""
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
    """Restore the fleet; workloads in the members are deleted with the namespace."""
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
