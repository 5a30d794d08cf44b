"""The roles of `trimtab controllers`: what one process does.

decide  all controllers of the fleet that decide: one process leads, the others wait
push    applies Works in Push clusters and probes them: all processes, each for the members whose Lease it holds
pods    budgets, default budgets and avoid lists over the pods of the cluster itself: one process leads

A process with decide and push does both for all members while it leads; that is the default.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import click

from trimtab.api.profile import Profile
from trimtab.app import ControlPlane
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.controllers import pods as pod_modules
from trimtab.controllers.clusters.ownership import LEASE_NAMESPACE
from trimtab.controllers.clusters.served import OWNED_MEMBERS, PUSHES_ONLY
from trimtab.controllers.pods.registry import member_controllers
from trimtab.controllers.propagation.template_scope import OWN_NAMESPACE
from trimtab.members.agent import CONTROLLERS as PUSH_CONTROLLERS
from trimtab.registry import discover
from trimtab.runtime.cache import Cache
from trimtab.runtime.declarations import load_declarations
from trimtab.runtime.manager import ControllerManager
from trimtab.runtime.member_claims import MemberClaims
from trimtab.runtime.view import ControlPlaneState
from trimtab.simulate.scalable_kinds import watch_scalable_kinds
from trimtab.tasks import stop_tasks
from trimtab.telemetry import HistogramSeries, Sample

log = logging.getLogger("trimtab.roles")
DECIDE, PUSH, PODS = ROLES = ("decide", "push", "pods")
DEFAULT_ROLES = f"{DECIDE},{PUSH}"
_OF_THE_CLUSTER = ("quota",)
"""Controllers over pods that every real cluster has already."""


def parse_roles(text: str) -> frozenset[str]:
    roles = frozenset(role.strip() for role in text.split(",") if role.strip())
    if unknown := sorted(roles - set(ROLES)):
        raise click.UsageError(f"--roles {text}: there is no role {unknown[0]}; the roles are {', '.join(ROLES)}")
    if not roles:
        raise click.UsageError(f"--roles: name at least one of {', '.join(ROLES)}")
    return roles


def deciding_settings(roles: frozenset[str], lease_namespace: str) -> Mapping[str, Any]:
    """The settings of a process that decides; without the role push it leaves all members to others.

    The namespace of the Leases is the one in which the control plane runs.
    """
    own = {OWN_NAMESPACE: lease_namespace}
    return own if PUSH in roles else {**own, OWNED_MEMBERS: frozenset(), LEASE_NAMESPACE: lease_namespace}


class PushWork:
    """Serves the members whose Leases this process holds."""

    def __init__(self, plane: ControlPlane, claims: MemberClaims) -> None:
        self._plane = plane
        self._claims = claims

    @property
    def is_ready(self) -> bool:
        return self._plane.is_ready

    def samples(self) -> Iterator[Sample]:
        yield from self._plane.manager.samples()
        yield from self._plane.observability.reconcile_samples()
        yield Sample("trimtab_owned_members", len(self._claims.held_members))

    def histograms(self) -> Iterator[HistogramSeries]:
        return self._plane.reconcile_histograms()

    async def run(self) -> None:
        """Serve until cancelled; then finish what is in progress, and release the Leases."""
        serving = asyncio.get_running_loop().create_task(self._plane.run(), name="controllers")
        claiming = asyncio.get_running_loop().create_task(self._claim_when_ready(), name="claims of members")
        try:
            await asyncio.wait({serving, claiming}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await stop_tasks([claiming], log)  # first: it ends what is in progress and releases the Leases
            await stop_tasks([serving], log)

    async def _claim_when_ready(self) -> None:
        await self._plane.cache.wait_until_synced()
        await self._claims.run(self._plane)


def pushing_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**settings, OWNED_MEMBERS: frozenset(), PUSHES_ONLY: True}


def is_push_controller(name: str) -> bool:
    return name in PUSH_CONTROLLERS


class NoMembers:
    """A cluster without members."""

    def get(self, cluster: str) -> None:
        return None


class PodWork:
    """The controllers over the pods of one cluster, on its own API server."""

    def __init__(self, client: Client, clock: Clock, profile: Profile, settings: Mapping[str, Any]) -> None:
        load_declarations()
        discover(pod_modules)
        self._cache = Cache(client)
        state = ControlPlaneState(
            cache=self._cache,
            clock=clock,
            profile=profile,
            members=NoMembers(),
            settings={"pod-budget-floors": True, **settings},
            writes_exact_versions=True,
        )
        watch_scalable_kinds(state)
        chosen = [one for one in member_controllers.values() if one.name not in _OF_THE_CLUSTER]
        self._manager = ControllerManager(state, chosen)

    @property
    def is_ready(self) -> bool:
        return self._manager.started

    def samples(self) -> Iterator[Sample]:
        return self._manager.samples()

    def histograms(self) -> Iterator[HistogramSeries]:
        return iter(())

    async def run(self) -> None:
        await self._manager.run()
