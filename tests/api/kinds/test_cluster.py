"""Clusters, their taints and tolerations."""

import pytest

from api.kinds.kind_helpers import reencode, schema_error_fields
from trimtab.api.kinds.cluster import Cluster, Taint, Toleration


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), True),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), False),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="other"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Unknown", value="v"), False),
    ],
)
def test_toleration_matches_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(Taint(key="k", value="v", effect="NoExecute")) is tolerated


def test_abbreviations_keep_their_spelling_on_the_wire() -> None:
    spec = {"syncMode": "Push", "proxyURL": "http://p", "insecureSkipTLSVerification": True}
    assert reencode(Cluster, {"metadata": {"name": "m1"}, "spec": spec})["spec"] == spec


def test_sync_mode_is_push_or_pull() -> None:
    assert schema_error_fields(Cluster, {"spec": {"syncMode": "Both"}}) == ["spec.syncMode"]
    assert schema_error_fields(Cluster, {"spec": {"syncMode": "Pull"}}) == []


def test_conditions_need_no_reason_as_in_karmada() -> None:
    condition = {"type": "ServiceDomainNameResolutionReady", "status": "False"}
    assert schema_error_fields(Cluster, {"status": {"conditions": [condition]}}) == []
