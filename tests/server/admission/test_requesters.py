"""The user behind a rebalance or a drain is noted by the server, not by the client."""

import asyncio
from typing import Any

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.requesters import Requesters
from trimtab.server.apiserver import served_resources_of
from trimtab.server.auth.user import Caller, User
from trimtab.server.resources import ObjectPath

REQUESTER, DRAIN = "trimtab.dev/requested-by", "trimtab.dev/drain"


def admit(type_: Any, annotations: Any, old: Any = None, *, user: str = "anna", verb: str = "create") -> Any:
    """The annotations after admission; `old` are those of the stored object."""
    served = next(iter(served_resources_of(kind_of(type_))))
    caller = Caller(user=User(user), verb=verb)
    attributes = Attributes("CREATE" if old is None else "UPDATE", ObjectPath(served, "", "one"), caller)
    before = None if old is None else {"metadata": {"name": "one", "annotations": old}}
    obj = {"metadata": {"name": "one", **({"annotations": annotations} if annotations is not None else {})}}
    return asyncio.run(Requesters().mutate(attributes, obj, before))["metadata"].get("annotations")


@pytest.mark.parametrize("claimed", [None, {}, {REQUESTER: "berta"}])
def test_rebalance_names_the_user_who_created_it(claimed: Any) -> None:
    assert admit(WorkloadRebalancer, claimed) == {REQUESTER: "anna"}


@pytest.mark.parametrize("claimed", [None, {}, {REQUESTER: "berta"}])
def test_later_writes_do_not_change_who_asked(claimed: Any) -> None:
    assert admit(WorkloadRebalancer, claimed, {REQUESTER: "anna"}, user="carl") == {REQUESTER: "anna"}


def test_drain_names_the_user_who_began_it() -> None:
    assert admit(Cluster, {DRAIN: "t1", "a": "b"}, {}) == {DRAIN: "t1", "a": "b", REQUESTER: "anna"}
    running = {DRAIN: "t1", REQUESTER: "anna"}
    assert admit(Cluster, {DRAIN: "t1"}, running, user="carl") == running
    assert admit(Cluster, {REQUESTER: "anna"}, running, user="carl") is None
    assert admit(Cluster, {DRAIN: "t2", REQUESTER: "anna"}, running, user="carl") == {DRAIN: "t2", REQUESTER: "carl"}


def test_controllers_of_the_process_are_nobody() -> None:
    assert admit(Cluster, {DRAIN: "t1"}, {}, verb="") == {DRAIN: "t1"}
