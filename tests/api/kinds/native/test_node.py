import pytest

from api.kinds.kind_helpers import decode, reencode
from trimtab.api.kinds.native.node import Node


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_node_is_ready_when_its_ready_condition_is_true(status: str, ready: bool) -> None:
    conditions = [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]
    assert decode(Node, {"metadata": {"name": "n"}, "status": {"conditions": conditions}}).is_ready is ready


def test_node_without_conditions_is_not_ready() -> None:
    assert not decode(Node, {"metadata": {"name": "n"}}).is_ready


def test_names_with_acronyms_are_kept() -> None:
    spec = {"podCIDR": "10.0.0.0/24", "providerID": "x://1"}
    node = decode(Node, {"metadata": {"name": "n"}, "spec": spec})
    assert (node.spec.pod_cidr, node.spec.provider_id) == ("10.0.0.0/24", "x://1")
    assert reencode(Node, {"metadata": {"name": "n"}, "spec": spec})["spec"] == spec
