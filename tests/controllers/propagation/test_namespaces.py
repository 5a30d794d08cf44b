"""Namespaces of the host exist in every member."""

from builders import NOON
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Meta
from trimtab.controllers.propagation.namespaces import namespaces

CLUSTER = Cluster(metadata=Meta(name="m1"))
ROOM = Namespace(metadata=Meta(name="karmada-es-m1"))


def test_a_namespace_is_sent_to_every_member_with_a_room() -> None:
    demo = Namespace(metadata=Meta(name="demo", uid="u1"))
    (work,) = namespaces(demo, FakeView([CLUSTER, ROOM, demo]))
    assert isinstance(work, Work)
    assert (work.namespace, work.metadata.owner_references[0].uid) == ("karmada-es-m1", "u1")


def test_a_namespace_that_is_ending_stays_in_members_until_it_is_gone() -> None:
    ending = Namespace(metadata=Meta(name="demo", uid="u1", deletion_timestamp=NOON))
    assert not list(namespaces(ending, FakeView([CLUSTER, ROOM, ending])))
