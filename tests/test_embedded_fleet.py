"""A fleet in one process: what a restart of its controllers writes."""

import asyncio
from typing import Any

from builders import deployment

from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.store.store import Store

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
POLICY = {
    "apiVersion": POLICIES.api_version,
    "kind": POLICIES.kind,
    "metadata": {"name": "all", "namespace": "shop"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
    },
}
PLAN = FleetPlan(members=(MemberPlan(name="m1"), MemberPlan(name="m2")), lean=True, pace="instant")


async def settle(fleet: EmbeddedFleet) -> None:
    await asyncio.sleep(60)
    assert fleet.plane is not None
    assert fleet.plane.is_idle
    assert all(member.is_idle for member in fleet.world)


async def revisions_after_restart(profile: Profile, changes: dict[str, Any] | None) -> tuple[list[int], list[Any]]:
    """How far a restart moves the revisions of the host and of each member; and the images that the members run.

    `changes` are made to the Deployment while no controller runs.
    """
    clock = LoopClock()
    host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
    await host.start()
    fleet = EmbeddedFleet(PLAN, host=host, clock=clock, profile=profile)
    try:
        await fleet.start()
        await fleet.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await fleet.client.create(POLICIES, POLICY)
        web = deployment()
        name = web["metadata"]["name"]
        await fleet.client.create(DEPLOYMENTS, {**web, "metadata": {"name": name, "namespace": "shop"}})
        await settle(fleet)
        await fleet.stop_plane()
        if changes is not None:
            await fleet.client.patch(DEPLOYMENTS, "shop", name, changes, type="strategic")
        stores = [host.store, *(member.server.store for member in fleet.world)]
        before = [store.revision for store in stores]
        await fleet.start_plane()
        await settle(fleet)
        running = [(await member.client.get(DEPLOYMENTS, "shop", name))["spec"] for member in fleet.world]
        images = [one["template"]["spec"]["containers"][0]["image"] for one in running]
        return [store.revision - old for store, old in zip(stores, before, strict=True)], images
    finally:
        await fleet.stop()
        await host.stop()


def test_restart_of_the_controllers_writes_nothing() -> None:
    written, _ = run_virtually(revisions_after_restart(TRIMTAB, None))
    assert written == [0, 0, 0]


def test_restart_repeats_writes_and_events_in_the_profile_of_upstream() -> None:
    (on_host, *_), _ = run_virtually(revisions_after_restart(UPSTREAM, None))
    assert on_host > 0


def test_change_that_was_made_while_no_controller_ran_is_delivered() -> None:
    changes = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    _, images = run_virtually(revisions_after_restart(TRIMTAB, changes))
    assert images == ["app:2", "app:2"]
