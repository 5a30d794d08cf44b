"""Whether a cluster is ready."""

import pytest
from builders import NOON, cluster

from trimtab.api.value import Condition
from trimtab.controllers.clusters.readiness import is_ready


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_the_condition_ready_counts(status: str, ready: bool) -> None:
    found = cluster("m1")
    conditions = (Condition(type="Ready", status=status, last_transition_time=NOON),)
    assert is_ready(found.but(status=found.status.but(conditions=conditions))) == ready


def test_a_cluster_that_was_never_probed_is_not_ready() -> None:
    found = cluster("m1")
    assert not is_ready(found.but(status=found.status.but(conditions=())))
