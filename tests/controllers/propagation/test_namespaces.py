"""Namespaces of the host exist in every member."""

import pytest
from builders import NOON
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Meta
from trimtab.controllers.propagation.namespaces import (
    namespaces,
    namespaces_for_new_cluster,
    namespaces_for_new_execution_namespace,
)
from trimtab.controllers.propagation.template_scope import OWN_NAMESPACE

CLUSTER = Cluster(metadata=Meta(name="m1"))
EXECUTION_NAMESPACE = Namespace(metadata=Meta(name="karmada-es-m1"))


def test_namespace_gets_work_in_every_execution_namespace() -> None:
    demo = Namespace(metadata=Meta(name="demo", uid="u1"))
    (work,) = namespaces(demo, FakeView([CLUSTER, EXECUTION_NAMESPACE, demo]))
    assert isinstance(work, Work)
    assert (work.namespace, work.metadata.owner_references[0].uid) == ("karmada-es-m1", "u1")


def test_terminating_namespace_keeps_its_works() -> None:
    terminating = Namespace(metadata=Meta(name="demo", uid="u1", deletion_timestamp=NOON))
    assert not list(namespaces(terminating, FakeView([CLUSTER, EXECUTION_NAMESPACE, terminating])))


@pytest.mark.parametrize("name", ["trimtab-system", "control", "kube-system", "karmada-es-m1", "default"])
def test_namespaces_of_control_planes_are_not_propagated(name: str) -> None:
    """They would be deleted in the members, with agents in them, when the control plane is uninstalled."""
    own = Namespace(metadata=Meta(name=name, uid="u1"))
    view = FakeView([CLUSTER, EXECUTION_NAMESPACE, own], settings={OWN_NAMESPACE: "control"})
    assert not list(namespaces(own, view))


def test_new_cluster_concerns_no_execution_namespaces() -> None:
    """There is one per cluster: the start of a fleet would take quadratic time."""
    demo = Namespace(metadata=Meta(name="demo"))
    view = FakeView([CLUSTER, EXECUTION_NAMESPACE, demo])
    assert [key.name for key in namespaces_for_new_cluster(None, CLUSTER, view)] == ["demo"]
    assert [key.name for key in namespaces_for_new_execution_namespace(None, EXECUTION_NAMESPACE, view)] == ["demo"]
    assert not list(namespaces_for_new_execution_namespace(None, demo, view))
