"""Members come, change their address and go; what is seen in them is what was last heard or done there."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from trimtab.client.client import Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.contract import UNSEEN, Ref
from trimtab.errors import InputFault, NotFound
from trimtab.members.roster import FOREIGN_SECONDS, Roster
from trimtab.runtime.cache import Cache
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
OURS = Ref("v1", "ConfigMap", "default", "ours")
THEIRS = Ref("v1", "ConfigMap", "default", "theirs")


class Stage:
    """A host, a member, and the roster between them."""

    def __init__(self, host: ApiServer, member: ApiServer) -> None:
        self.host = LocalClient(host)
        self.member = LocalClient(member)
        self.heard: list[tuple[str, str]] = []
        self.connected: list[str] = []
        self.cache = Cache(LocalClient(host))
        self.roster = Roster(self.cache, self.connect, self.hear)

    def connect(self, cluster):
        self.connected.append(cluster.spec.api_endpoint)
        if cluster.spec.api_endpoint.endswith("broken"):
            raise InputFault("the certificates cannot be used")
        return LocalClient(self.member._server) if not cluster.spec.api_endpoint.endswith("later") else None

    def hear(self, cluster: str, old, new) -> None:
        self.heard.append((cluster, (new or old)["metadata"]["name"]))

    async def join(self, name: str, endpoint: str = "https://east") -> None:
        spec = {"apiEndpoint": endpoint, "syncMode": "Push"}
        body = {"apiVersion": CLUSTERS.api_version, "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
        await self.host.create(CLUSTERS, body)
        await asyncio.sleep(1)

    async def put(self, ref: Ref, **labels: str) -> dict:
        meta = {"namespace": ref.namespace, "name": ref.name, "labels": labels}
        return await self.member.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


def play(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        servers = [ApiServer(Store(), Settings(clock=LoopClock())) for _ in range(2)]
        for server in servers:
            await server.start()
        stage = Stage(*servers)
        try:
            await story(stage)
        finally:
            await stage.roster.close()
            await stage.cache.close()
            for server in servers:
                await server.stop()

    run_virtually(run())


def test_a_cluster_that_joins_is_reached_and_one_that_leaves_is_not() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("east")
        assert stage.roster.names() == ["east"]
        await stage.host.delete(CLUSTERS, "", "east")
        await asyncio.sleep(1)
        assert stage.roster.get("east") is None

    play(story)


def test_a_new_address_is_a_new_client_and_any_other_change_is_not() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("east")
        await stage.host.patch(CLUSTERS, "", "east", {"spec": {"region": "eu"}})
        await asyncio.sleep(1)
        assert stage.connected == ["https://east"]
        await stage.host.patch(CLUSTERS, "", "east", {"spec": {"apiEndpoint": "https://new"}})
        await asyncio.sleep(1)
        assert stage.connected == ["https://east", "https://new"]

    play(story)


def test_credentials_that_cannot_be_used_are_one_members_trouble_alone() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("broken", "https://broken")
        await stage.join("later", "https://later")
        await stage.join("east")
        assert stage.roster.names() == ["east"]

    play(story)


def test_what_carries_our_mark_is_followed_and_told() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("east")
        member = stage.roster.get("east")
        assert member is not None
        assert member.seen(OURS) is UNSEEN
        await member.resource("v1", "ConfigMap")
        await stage.put(OURS, **{"karmada.io/managed": "true"})
        await stage.put(THEIRS)
        assert member.seen(OURS) is UNSEEN
        await asyncio.sleep(1)
        assert member.seen(OURS)["metadata"]["name"] == "ours"
        assert member.seen(THEIRS) is None
        assert stage.heard == [("east", "ours")]

    play(story)


def test_a_look_at_a_strangers_object_is_believed_for_a_while() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("east")
        member = stage.roster.get("east")
        assert member is not None
        found = await stage.put(THEIRS)
        resource = await member.resource("v1", "ConfigMap")
        member.learn(resource, "default", "theirs", found)
        assert member.seen(THEIRS) == found
        await asyncio.sleep(FOREIGN_SECONDS + 1)
        assert member.seen(THEIRS) is None
        member.learn(resource, "default", "theirs", found)
        member.learn(resource, "default", "theirs", None)
        assert member.seen(THEIRS) is None

    play(story)


def test_a_kind_that_the_member_does_not_serve_is_said_so() -> None:
    async def story(stage: Stage) -> None:
        await stage.join("east")
        member = stage.roster.get("east")
        assert member is not None
        with pytest.raises(NotFound, match="the cluster east does not serve"):
            await member.resource("example.com/v1", "Ghost")

    play(story)
