"""Which members a process serves."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import cluster

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Object
from trimtab.client.client import Client, resource_of
from trimtab.controllers.clusters.served import OWNED_MEMBERS, PUSHES_ONLY, SIMULATED_SUFFIX
from trimtab.errors import Unavailable
from trimtab.members import served_members
from trimtab.members.served_members import ServedMembers
from trimtab.runtime.cache import Cache, Table
from trimtab.server.apiserver import ApiServer
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

PUSH, PULL = cluster("push"), cluster("pull", sync_mode="Pull")
CLIENT: Client = LocalClient(ApiServer(Store()))


class ClusterCache(Cache):
    """A cache that watches nothing and has two clusters."""

    def __init__(self) -> None:
        super().__init__(CLIENT)
        self._clusters = Table(resource_of(kind_of(Cluster)))
        for one in (PUSH, PULL):
            self._clusters.put(to_wire(one))

    def table_of(self, type_: type[Object]) -> Table:
        assert type_ is Cluster
        return self._clusters


def served(settings: dict[str, Any] | None = None, *, connects: bool = True) -> ServedMembers:
    cache = ClusterCache()
    return ServedMembers(cache, settings if settings is not None else {}, (lambda _: CLIENT) if connects else None)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["push"]),
        ({"agent": "pull"}, ["pull"]),
        ({"agent": "other"}, []),
        ({OWNED_MEMBERS: frozenset()}, []),
        ({OWNED_MEMBERS: frozenset(["push"])}, ["push"]),
    ],
)
def test_process_serves_its_push_clusters_or_its_own_pull_cluster(
    settings: dict[str, Any], expected: list[str]
) -> None:
    members = served(settings)
    assert [one.name for one in members.clusters()] == expected
    assert members.push_members() == ["push"]


def test_process_that_only_pushes_connects_to_no_member_of_another() -> None:
    members = served({PUSHES_ONLY: True, OWNED_MEMBERS: frozenset()})
    assert members.connect(PUSH) is None
    members.own("push")
    assert members.connect(PUSH) is CLIENT
    members.disown("push")
    assert members.connect(PUSH) is None


def test_only_the_agent_connects_to_a_pull_cluster_but_search_reads_it() -> None:
    assert served().connect(PULL) is None
    assert served().connect_for_search(PULL) is CLIENT
    assert served({"agent": "pull"}).connect(PULL) is CLIENT


def test_member_that_another_process_simulates_is_not_probed() -> None:
    simulated = cluster("push", api_endpoint=f"https://push{SIMULATED_SUFFIX}")
    assert served().is_probed(simulated)
    assert not served(connects=False).is_probed(simulated)
    assert served(connects=False).is_probed(PUSH)


def test_without_credentials_there_is_no_client() -> None:
    assert served(connects=False).connect(PUSH) is None


@pytest.mark.parametrize("by_member", [False, True])
def test_member_is_written_only_when_every_check_allows_it(by_member: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def refuse() -> None:
        raise Unavailable("not released")

    hooks: list[Callable[[], None]] = []
    monkeypatch.setattr(served_members, "client_from_secret", lambda _one, _secret, check: hooks.append(check))
    check_member = checked.append if by_member else None
    ServedMembers(ClusterCache(), {}, None, lambda: checked.append("lease"), check_member).connect(PUSH)
    hooks[0]()
    assert checked == (["push"] if by_member else ["lease"])
    ServedMembers(ClusterCache(), {}, None, lambda: None, check_member, refuse).connect(PUSH)
    with pytest.raises(Unavailable, match="not released"):
        hooks[1]()
