from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.decide.pods.budgets.component_quota import charge_quota, component_of, quota_refusal, quotas_of
from trimtab.decide.pods.budgets.pod_budgets import DisruptionCause

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
DRAIN = DisruptionCause("drain", "Maintenance")


def policy(**quota: Any) -> DisruptionPolicy:
    quotas = [{"component": "drain", **quota}] if quota else []
    return msgspec.convert({"spec": {"componentQuotas": quotas}}, DisruptionPolicy)


def ongoing(_: str) -> bool:
    return True


def ended(_: str) -> bool:
    return False


def test_disruptions_in_flight_use_up_the_quota_until_they_end() -> None:
    after = charge_quota(policy(maxInFlight=1), DRAIN, ("shop", "p"), ongoing, NOON)
    assert quota_refusal(policy(maxInFlight=1), DRAIN, "shop", ongoing, NOON) is None
    assert quota_refusal(after, DRAIN, "shop", ongoing, NOON) is not None
    assert quota_refusal(after, DRAIN, "shop", ended, NOON) is None
    assert quota_refusal(after, DisruptionCause("other"), "shop", ongoing, NOON) is None


def test_exhausted_rate_returns_the_seconds_to_wait() -> None:
    after = charge_quota(policy(rate={"disruptions": 1, "period": "1h"}), DRAIN, ("shop", "p"), ended, NOON)
    refusal = quota_refusal(after, DRAIN, "shop", ended, NOON + timedelta(minutes=50))
    assert refusal is not None
    assert refusal.seconds == 600
    assert quota_refusal(after, DRAIN, "shop", ended, NOON + timedelta(hours=1)) is None


def test_namespace_scope_counts_each_namespace() -> None:
    after = charge_quota(policy(maxInFlight=1, scope="Namespace"), DRAIN, ("shop", "p"), ongoing, NOON)
    assert quota_refusal(after, DRAIN, "shop", ongoing, NOON) is not None
    assert quota_refusal(after, DRAIN, "other", ongoing, NOON) is None


def test_unnamed_components_have_default_quotas_and_users_count_as_their_component() -> None:
    assert [one.max_in_flight for one in quotas_of(policy(), "drain")] == [50]
    assert [one.max_in_flight for one in quotas_of(policy(maxInFlight=3), "drain")] == [3]
    assert quotas_of(policy(), "unknown") == []
    assert component_of(policy(maxInFlight=1, users=["alice"]), "alice") == "drain"
    assert component_of(policy(maxInFlight=1, users=["alice"]), "bob") == ""


def test_quota_without_a_scope_is_shared_by_all_namespaces() -> None:
    after = charge_quota(policy(maxInFlight=1), DRAIN, ("shop", "p"), ongoing, NOON)
    assert quota_refusal(after, DRAIN, "other", ongoing, NOON) is not None


def test_every_disruption_that_has_not_ended_counts() -> None:
    after = policy(maxInFlight=2)
    for name in ("p", "q"):
        assert quota_refusal(after, DRAIN, "shop", ongoing, NOON) is None
        after = charge_quota(after, DRAIN, ("shop", name), ongoing, NOON)
    assert quota_refusal(after, DRAIN, "shop", ongoing, NOON) is not None
