"""Recorded flows of a live Karmada control plane end on a real kube-apiserver as on the embedded server."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from compat.flow_compare import Difference
from compat.flows import (
    EVENTS,
    FLOWS,
    RECORDED_SETTINGS,
    AllowedDifference,
    RecordedFlow,
    allowed_differences,
    recorded_readiness,
)
from kube.fleet import (
    CLUSTERS,
    NAMESPACES,
    POLL_SECONDS,
    TIMEOUT_SECONDS,
    WORKS,
    CachedClient,
    RealFleet,
    all_ready,
    wait_until,
)
from kube.rig import kubectl
from kube.workloads import is_gone

from trimtab.api.kinds.policy import Placement
from trimtab.cli.commands.join import command as join
from trimtab.client.client import Client, Listing, Resource
from trimtab.decide.request import PlacementRequest, parse_placement
from trimtab.errors import NotFound
from trimtab.runtime.cache import CacheEntry
from trimtab.simulate.fleet import flows_fleet

FLOW_FOLDERS = sorted(path.parent for path in FLOWS.glob("*/input.yaml"))
QUIET_SECONDS = 2.0
"""An unwanted change counts as absent when there is no difference for this time."""
CLUSTER_WIDE = ("ClusterPropagationPolicy", "ResourceInterpreterCustomization", "WorkloadRebalancer", "ClusterRole")
RELEASE_DIFFERENCES = [
    AllowedDifference("members", "* .status.terminatingReplicas", "written by the newer recorded release"),
    AllowedDifference("*", "*updateStrategy.rollingUpdate.maxUnavailable", "the newer release sets a default"),
    AllowedDifference("*", "*template.metadata.creationTimestamp", "the newer release omits the null"),
]


class AllowedDifferences:
    """Allowed differences, and the rules that were used."""

    def __init__(self) -> None:
        self.rules = [*allowed_differences(), *RELEASE_DIFFERENCES]
        self.needed: set[AllowedDifference] = set()

    def partition(self, found: list[Difference]) -> tuple[list[Difference], set[AllowedDifference]]:
        """The differences that no rule covers, and the rules that cover the others."""
        covering = [(difference, next((r for r in self.rules if r.covers(difference)), None)) for difference in found]
        return [d for d, rule in covering if rule is None], {rule for _, rule in covering if rule is not None}


class WorkOwners:
    """Maps Works to flows: events outlive their Work and contain only its name."""

    def __init__(self) -> None:
        self._manifests: dict[str, list[dict[str, Any]]] = {}

    def on_work_change(self, _: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None:
            manifests = new.raw["spec"]["workload"]["manifests"]
            self._manifests[new.name[1]] = [manifest["metadata"] for manifest in manifests]

    def belongs_to(self, namespace: str, work: str) -> bool:
        return any(
            manifest["namespace"] == namespace if manifest.get("namespace") else manifest["name"].startswith(namespace)
            for manifest in self._manifests.get(work, ())
        )


class FlowHostClient(CachedClient):
    """The host as one flow sees it: without events of other flows, and with uids that break ties as recorded."""

    def __init__(self, fleet: RealFleet, flow: RecordedFlow, owners: WorkOwners) -> None:
        super().__init__(fleet.client, fleet.cached_client.cache)
        self._flow = flow
        self._owners = owners

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        listing = await super().list(resource, namespace)
        if resource.id != EVENTS.id:
            return listing
        return Listing([event for event in listing.items if self._is_about_flow(event["involvedObject"])], "")

    def _is_about_flow(self, about: dict[str, Any]) -> bool:
        return about["kind"] != "Work" or self._owners.belongs_to(self._flow.namespace, about["name"])

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **more: Any) -> dict[str, Any]:
        """Recreate a template until its uid breaks ties as the recorded one does: a real server generates uids.

        Only while the flow has no policy: a propagated template cannot be recreated.
        """
        recorded = self._flow.expect["uids"].get(f"{resource.kind}/{namespace}/{name}")
        created: dict[str, Any] = await self._client.patch(resource, namespace, name, patch, **more)
        divided = recorded is not None and "replicas" in (created.get("spec") or {})
        if not divided or created["metadata"]["generation"] > 1 or await self._has_policy():
            return created
        while breaks_ties_backwards(created["metadata"]["uid"]) != breaks_ties_backwards(recorded):
            await self._client.delete(resource, namespace, name)
            created = await self._client.patch(resource, namespace, name, patch, **more)
        return created

    async def _has_policy(self) -> bool:
        kinds = [self._flow.resources[kind] for kind in ("PropagationPolicy", "ClusterPropagationPolicy")]
        policies = [policy["metadata"] for kind in kinds for policy in (await self._client.list(kind)).items]
        return any(
            self._flow.namespace in (policy.get("namespace"), policy["name"][: len(self._flow.namespace)])
            for policy in policies
        )


def breaks_ties_backwards(uid: str) -> bool:
    return PlacementRequest(placement=parse_placement(Placement()), uid=uid).last_wins_ties


class RealEnvironment:
    """The environment of one flow, which runs alone or beside others."""

    def __init__(self, fleet: RealFleet, flow: RecordedFlow, owners: WorkOwners, allowed: AllowedDifferences) -> None:
        self._fleet = fleet
        self._flow = flow
        self._allowed = allowed
        self.client: Client = cast("Client", FlowHostClient(fleet, flow, owners))

    @property
    def members(self) -> Mapping[str, Client]:
        return self._fleet.members

    def direct_client(self, member: str) -> Client:
        return self._fleet.real_members[member].direct_client

    async def stop_api(self, member: str) -> None:
        await self._fleet.real_members[member].stop_api()

    async def start_api(self, member: str) -> None:
        await self._fleet.real_members[member].start_api()

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        """Wait until there is no difference and no further event for a while, or until the timeout.

        An event that a busy machine repeats late would count for the next step.
        """
        deadline = time.monotonic() + seconds + TIMEOUT_SECONDS
        quiet_since: float | None = None
        counts: dict[str, int] = {}
        while True:
            remaining, needed = self._allowed.partition(await compare())
            now, before, counts = time.monotonic(), counts, await self._flow.event_counts()
            quiet_since = None if remaining or counts != before else quiet_since or now
            if now > deadline or (quiet_since is not None and now - quiet_since >= QUIET_SECONDS):
                self._allowed.needed |= needed
                return remaining
            await asyncio.sleep(POLL_SECONDS)


class FlowSession:
    """The fleet and all flows that run on it."""

    def __init__(self, fleet: RealFleet) -> None:
        self.fleet = fleet
        self.allowed = AllowedDifferences()
        self._owners = WorkOwners()
        self.outcomes: dict[str, list[Difference] | BaseException] = {}

    async def start(self) -> None:
        works = self.fleet.cached_client.cache.table(WORKS)
        works.add_listener(self._owners.on_work_change)
        await works.synced.wait()

    async def run(self, *flows: RecordedFlow) -> None:
        """Run these flows concurrently and clean up."""
        await wait_until(lambda: is_fleet_idle(self.fleet))
        outcomes = await asyncio.gather(*map(self._run, flows), return_exceptions=True)
        self.outcomes |= {flow.folder.name: outcome for flow, outcome in zip(flows, outcomes, strict=True)}

    async def run_again(self, flow: RecordedFlow) -> None:
        """Run a flow from a clean state, without its earlier events."""
        await wait_until(lambda: is_gone(self.fleet, flow.namespace))
        for event in (await self.fleet.client.list(EVENTS)).items:
            about = event["involvedObject"]
            if about["kind"] == "Work" and self._owners.belongs_to(flow.namespace, about["name"]):
                with contextlib.suppress(NotFound):
                    await self.fleet.client.delete(EVENTS, event["metadata"]["namespace"], event["metadata"]["name"])
        await self.run(flow)

    async def _run(self, flow: RecordedFlow) -> list[Difference]:
        for name, member in self.fleet.real_members.items():
            member.kubelets.override_behaviour(recorded_readiness(name))
        await flow.prepare(RealEnvironment(self.fleet, flow, self._owners, self.allowed))
        try:
            await wait_until(lambda: has_namespace(self.fleet, flow.namespace))
            return [difference async for difference in flow.steps()]
        finally:
            await clean_up(self.fleet, flow)


def is_independent(flow: RecordedFlow) -> bool:
    """Whether a flow may run beside others: it changes no shared objects and does not depend on free capacity."""
    texts = json.dumps(flow.script["steps"])
    shared = ('"Cluster"', "ResourceInterpreterCustomization", "member-apiserver")
    by_room = ("dynamicWeight", "Aggregated", "spreadConstraints")
    return not any(word in texts for word in (*shared, *by_room))


@pytest.fixture(scope="module")
def flow_session(fleet: RealFleet, request: pytest.FixtureRequest) -> Iterator[FlowSession]:
    """Independent flows run together before the first test; the others run one by one."""
    settings = [f"--set={name}={str(value).lower()}" for name, value in RECORDED_SETTINGS.items()]
    requested = {item.callspec.params["folder"] for item in request.session.items if is_flow_test(item)}
    independent = [flow for flow in map(RecordedFlow, sorted(requested)) if is_independent(flow)]
    fleet.loop.run(fleet.reconfigure(flows_fleet()))
    for member in fleet.real_members.values():  # some flows propagate roles
        printed = CliRunner().invoke(
            join, [member.name, "--print", "--no-proxy", "--allow-rbac"], catch_exceptions=False
        )
        kubectl(member.plane, "apply", "-f", "-", given=printed.output)
    with fleet.controllers("flows", "--profile=upstream", "--status-seconds=2", *settings):
        flow_session = FlowSession(fleet)
        fleet.loop.run(flow_session.start())
        fleet.loop.run(flow_session.run(*independent))
        yield flow_session


def is_flow_test(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.originalname == "test_recorded_flow"


@pytest.mark.parametrize("folder", FLOW_FOLDERS, ids=lambda folder: folder.name)
def test_recorded_flow(flow_session: FlowSession, folder: Path) -> None:
    if folder.name not in flow_session.outcomes:
        flow_session.fleet.loop.run(flow_session.run(RecordedFlow(folder)))
    found = flow_session.outcomes[folder.name]
    if (
        found and RecordedFlow(folder).expect["timingDependent"]
    ):  # a timing-dependent flow may legitimately differ on a busy machine
        flow_session.fleet.loop.run(flow_session.run_again(RecordedFlow(folder)))
        found = flow_session.outcomes[folder.name]
    if isinstance(found, BaseException):
        raise found
    assert not found, "\n".join(map(str, found[:20]))


def test_every_allowed_difference_is_needed(flow_session: FlowSession) -> None:
    if len(flow_session.outcomes) < len(FLOW_FOLDERS):
        pytest.skip("requires the results of all flows")
    assert [rule.path for rule in flow_session.allowed.rules if rule not in flow_session.allowed.needed] == []


async def is_fleet_idle(fleet: RealFleet) -> bool:
    """Every member is Ready with all its nodes and runs no pods, as at the start of every flow."""
    return await all_ready(fleet) and all(map(is_cluster_idle, (await fleet.client.list(CLUSTERS)).items))


def is_cluster_idle(cluster: dict[str, Any]) -> bool:
    allocated = (cluster["status"].get("resourceSummary") or {}).get("allocated") or {}
    return all(amount in ("0", 0) for amount in allocated.values()) and not cluster["spec"].get("taints")


async def has_namespace(fleet: RealFleet, name: str) -> bool:
    for member in fleet.members.values():
        try:
            await member.get(NAMESPACES, "", name)
        except NotFound:
            return False
    return True


async def clean_up(fleet: RealFleet, flow: RecordedFlow) -> None:
    """Restore the fleet; workloads in the members are deleted with the namespace."""
    for kind in CLUSTER_WIDE:
        resource = flow.resources[kind]
        for obj in (await fleet.client.list(resource)).items:
            if obj["metadata"]["name"].startswith(flow.namespace):
                with contextlib.suppress(NotFound):
                    await fleet.client.delete(resource, "", obj["metadata"]["name"])
    if not is_independent(flow):
        for cluster in (await fleet.client.list(CLUSTERS)).items:
            if cluster["spec"].get("taints"):
                await fleet.client.patch(CLUSTERS, "", cluster["metadata"]["name"], {"spec": {"taints": None}})
    await fleet.client.delete(NAMESPACES, "", flow.namespace)
