"""A probe reports whether a member responds and is healthy, what it serves, and its capacity."""

import asyncio
from collections.abc import Sequence

import pytest

from trimtab.api.kinds.cluster import Cluster, ClusterSpec
from trimtab.api.value import Meta
from trimtab.client.client import PlainResponse, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.members.probe import Prober, api_enablements
from trimtab.members.roster import MemberHandle
from trimtab.runtime.cache import Cache
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EAST = Cluster(metadata=Meta(name="east"), spec=ClusterSpec())


class FaultyMember(LocalClient):
    """A member with prepared responses."""

    prepared: dict[str, PlainResponse | Exception] = {}
    fetched: Sequence[str] = ()

    async def fetch(self, path: str):
        self.fetched = [*self.fetched, path]
        response = self.prepared.get(path)
        if isinstance(response, Exception):
            raise response
        return response or await super().fetch(path)


class OneMemberRoster:
    """A roster with one member, or none."""

    def __init__(self, member: MemberHandle | None) -> None:
        self.member = member

    def get(self, name: str) -> MemberHandle | None:
        return self.member


def probe_member(prepared: dict[str, PlainResponse | Exception] | None = None, *, joined: bool = True):
    return run_with_prober(lambda prober, _: prober.probe(EAST), prepared, joined=joined)


def run_with_prober(scenario, prepared: dict[str, PlainResponse | Exception] | None = None, *, joined: bool = True):
    async def run():
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        client = FaultyMember(server)
        client.prepared = prepared or {}
        ready = {"type": "Ready", "status": "True"}
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        status = {"conditions": [ready], "allocatable": allocatable, "capacity": allocatable}
        await client.patch(NODES, "", "n1", {"status": status}, subresource="status")
        member = MemberHandle("east", client, lambda *_: None) if joined else None
        host = Cache(LocalClient(server))
        prober = Prober(OneMemberRoster(member), host, LoopClock(), lambda *_: None)  # type: ignore[arg-type]
        try:
            return await scenario(prober, client)
        finally:
            if member is not None:
                await member.close()
            await server.stop()

    return run_virtually(run())


def test_version_is_read_once_a_minute() -> None:
    async def scenario(prober: Prober, client: FaultyMember) -> list[tuple[str, int]]:
        found = []
        for version in ("v1.31.0", "v1.32.0"):
            client.prepared["/version"] = PlainResponse(200, b'{"gitVersion": "%s"}' % version.encode())
            for _ in range(5):
                probe = await prober.probe(EAST)
                await asyncio.sleep(10)
            found.append((probe.version, client.fetched.count("/version")))
        await asyncio.sleep(10)
        return [*found, ((await prober.probe(EAST)).version, client.fetched.count("/version"))]

    # the second version is seen by the first probe that is a minute later than the one that read the first version
    assert run_with_prober(scenario) == [("v1.31.0", 1), ("v1.32.0", 2), ("v1.32.0", 2)]


def test_healthy_member_reports_version_apis_and_capacity() -> None:
    probe = probe_member()
    assert (probe.online, probe.healthy, probe.complete) == (True, True, True)
    assert probe.version.startswith("v1.")
    assert probe.nodes is not None
    assert (probe.nodes.total_num, probe.nodes.ready_num) == (1, 1)
    assert probe.resources is not None
    assert probe.resources.allocatable["cpu"] == "4"
    assert {entry.group_version for entry in probe.enablements} >= {"v1", "apps/v1"}


def test_member_without_a_client_is_unreachable() -> None:
    probe = probe_member(joined=False)
    assert (probe.online, probe.reachable) == (False, False)


def test_member_that_does_not_respond_is_offline() -> None:
    assert not probe_member({"/readyz": ConnectionRefusedError("refused")}).online


def test_member_that_is_too_slow_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "trimtab.probe")
    assert not probe_member({"/readyz": TimeoutError()}).online
    assert caplog.messages == ["the member does not respond: no answer in time"]


def test_member_that_is_not_ready_is_online_and_unhealthy() -> None:
    probe = probe_member({"/readyz": PlainResponse(500, b"not ready")})
    assert (probe.online, probe.healthy) == (True, False)


def test_healthz_is_used_when_readyz_does_not_exist() -> None:
    assert probe_member({"/readyz": PlainResponse(404, b"")}).healthy


def test_member_with_malformed_responses_is_online_and_unhealthy() -> None:
    probe = probe_member({"/version": PlainResponse(200, b"<html>welcome</html>")})
    assert (probe.online, probe.healthy) == (True, False)


def test_apis_are_sorted_by_group_and_resources_by_name() -> None:
    found = api_enablements([
        Resource("apps", "v1", "statefulsets", "StatefulSet"), Resource("", "v1", "pods", "Pod"),
        Resource("apps", "v1", "deployments", "Deployment"),
    ])  # fmt: skip
    assert [(group.group_version, [r.name for r in group.resources]) for group in found] == [
        ("apps/v1", ["deployments", "statefulsets"]),
        ("v1", ["pods"]),
    ]
