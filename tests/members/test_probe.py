"""A probe says of a member whether it answers, whether it is well, what it serves and what it can take."""

from trimtab.api.kinds.cluster import Cluster, ClusterSpec
from trimtab.api.value import Meta
from trimtab.client.client import Answer, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.members.probe import Prober, enablements
from trimtab.members.roster import MemberHandle
from trimtab.runtime.cache import Cache
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EAST = Cluster(metadata=Meta(name="east"), spec=ClusterSpec())


class Moody(LocalClient):
    """A member that may be unwell."""

    answers: dict[str, Answer | Exception] = {}

    async def fetch(self, path: str):
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer or await super().fetch(path)


class One:
    """A roster of one member, or none."""

    def __init__(self, member: MemberHandle | None) -> None:
        self.member = member

    def get(self, name: str) -> MemberHandle | None:
        return self.member


def probed(answers: dict[str, Answer | Exception] | None = None, *, joined: bool = True):
    async def run():
        server = ApiServer(Store(), Settings(clock=LoopClock()))
        await server.start()
        client = Moody(server)
        client.answers = answers or {}
        ready = {"type": "Ready", "status": "True"}
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        status = {"conditions": [ready], "allocatable": room, "capacity": room}
        await client.patch(NODES, "", "n1", {"status": status}, subresource="status")
        member = MemberHandle("east", client, lambda *_: None) if joined else None
        host = Cache(LocalClient(server))
        prober = Prober(One(member), host, LoopClock(), lambda *_: None)  # type: ignore[arg-type]
        try:
            return await prober.probe(EAST)
        finally:
            if member is not None:
                await member.close()
            await server.stop()

    return run_virtually(run())


def test_a_member_that_is_well_shows_its_version_its_apis_and_its_room() -> None:
    probe = probed()
    assert (probe.online, probe.healthy, probe.complete) == (True, True, True)
    assert probe.version.startswith("v1.")
    assert probe.nodes is not None
    assert (probe.nodes.total_num, probe.nodes.ready_num) == (1, 1)
    assert probe.resources is not None
    assert probe.resources.allocatable["cpu"] == "4"
    assert {entry.group_version for entry in probe.enablements} >= {"v1", "apps/v1"}


def test_a_member_without_a_client_is_out_of_reach() -> None:
    probe = probed(joined=False)
    assert (probe.online, probe.reachable) == (False, False)


def test_a_member_that_does_not_answer_is_offline() -> None:
    assert not probed({"/readyz": ConnectionRefusedError("refused")}).online


def test_a_member_that_says_it_is_not_ready_is_online_and_unwell() -> None:
    probe = probed({"/readyz": Answer(500, b"not ready")})
    assert (probe.online, probe.healthy) == (True, False)


def test_an_older_member_is_asked_where_it_answers() -> None:
    assert probed({"/readyz": Answer(404, b"")}).healthy


def test_a_member_that_answers_nonsense_is_unwell_and_no_more() -> None:
    probe = probed({"/version": Answer(200, b"<html>welcome</html>")})
    assert (probe.online, probe.healthy) == (True, False)


def test_apis_are_listed_by_group_and_resources_by_name() -> None:
    found = enablements([
        Resource("apps", "v1", "statefulsets", "StatefulSet"), Resource("", "v1", "pods", "Pod"),
        Resource("apps", "v1", "deployments", "Deployment"),
    ])  # fmt: skip
    assert [(group.group_version, [r.name for r in group.resources]) for group in found] == [
        ("apps/v1", ["deployments", "statefulsets"]),
        ("v1", ["pods"]),
    ]
