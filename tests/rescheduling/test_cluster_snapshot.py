import asyncio
from typing import Any

import pytest

from simulate.fixtures import BUDGETS, CRDS, DEPLOYMENTS, GAMES, create_game, deployment, game_crd, run_in_member
from trimtab.client.client import Client, Listing, Resource
from trimtab.decide.rescheduling.cluster_objects import ClusterObjects, PodOwner
from trimtab.errors import Forbidden
from trimtab.rescheduling.cluster_snapshot import read_cluster_objects
from trimtab.simulate.member import SimulatedMember


def test_a_custom_owner_is_read_with_its_desired_replicas() -> None:
    async def story(member: SimulatedMember) -> ClusterObjects:
        await member.client.create(CRDS, game_crd())
        await asyncio.sleep(10)
        assert (await read_cluster_objects(member.internal_client, is_stock=False)).other_owners == []
        await create_game(member, 3)
        await member.client.patch(GAMES, "default", "chess", {"spec": {"size": 5}})
        return await read_cluster_objects(member.internal_client, is_stock=False)

    facts = run_in_member(story)
    (owner,) = facts.other_owners
    assert owner == PodOwner(facts.pods[0].controller.uid, "Game/chess", 5, is_rolling_out=False)


class RestrictedClient:
    """A user who may list only the named kinds."""

    def __init__(self, client: Client, *allowed: str) -> None:
        self._client, self._allowed = client, allowed

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def list(self, resource: Resource, *where: str, **how: str) -> Listing:
        if resource.plural not in self._allowed:
            raise Forbidden(f"{resource.plural} is forbidden")
        return await self._client.list(resource, *where, **how)


NEEDED = (
    "nodes",
    "pods",
    "deployments",
    "replicasets",
    "statefulsets",
    "namespaces",
    "services",
    "persistentvolumeclaims",
    "priorityclasses",
)


def test_forbidden_optional_kinds_are_skipped_but_budgets_are_required() -> None:
    async def story(member: SimulatedMember) -> ClusterObjects:
        await member.client.create(CRDS, game_crd())
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(10)
        await create_game(member, 2)
        with pytest.raises(Forbidden, match=BUDGETS.plural):
            await read_cluster_objects(RestrictedClient(member.internal_client, *NEEDED), is_stock=True)
        return await read_cluster_objects(
            RestrictedClient(member.internal_client, *NEEDED, BUDGETS.plural), is_stock=True
        )

    facts = run_in_member(story)
    assert len(facts.pods) == 4
    assert (facts.other_owners, facts.policy, facts.rejects_overlap) == ([], None, True)
    assert facts.measures is not None  # metrics.k8s.io has nodes and pods of its own
