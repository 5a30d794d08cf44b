from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.decide.pods.budgets.component_quota import charged, component_of, exhausted, quotas_of
from trimtab.decide.pods.budgets.pod_budgets import Errand

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
DRAIN = Errand("drain", "Maintenance")


def policy(**quota: Any) -> DisruptionPolicy:
    quotas = [{"component": "drain", **quota}] if quota else []
    return msgspec.convert({"spec": {"componentQuotas": quotas}}, DisruptionPolicy)


def ongoing(_: str) -> bool:
    return True


def ended(_: str) -> bool:
    return False


def test_disruptions_in_flight_use_up_the_quota_until_they_end() -> None:
    after = charged(policy(maxInFlight=1), DRAIN, ("shop", "p"), ongoing, NOON)
    assert exhausted(policy(maxInFlight=1), DRAIN, "shop", ongoing, NOON) is None
    assert exhausted(after, DRAIN, "shop", ongoing, NOON) is not None
    assert exhausted(after, DRAIN, "shop", ended, NOON) is None
    assert exhausted(after, Errand("other"), "shop", ongoing, NOON) is None


def test_exhausted_rate_returns_the_seconds_to_wait() -> None:
    after = charged(policy(rate={"disruptions": 1, "period": "1h"}), DRAIN, ("shop", "p"), ended, NOON)
    refusal = exhausted(after, DRAIN, "shop", ended, NOON + timedelta(minutes=50))
    assert refusal is not None
    assert refusal.seconds == 600
    assert exhausted(after, DRAIN, "shop", ended, NOON + timedelta(hours=1)) is None


def test_namespace_scope_counts_each_namespace() -> None:
    after = charged(policy(maxInFlight=1, scope="Namespace"), DRAIN, ("shop", "p"), ongoing, NOON)
    assert exhausted(after, DRAIN, "shop", ongoing, NOON) is not None
    assert exhausted(after, DRAIN, "other", ongoing, NOON) is None


def test_unnamed_components_have_default_quotas_and_users_count_as_their_component() -> None:
    assert [one.max_in_flight for one in quotas_of(policy(), "drain")] == [50]
    assert [one.max_in_flight for one in quotas_of(policy(maxInFlight=3), "drain")] == [3]
    assert quotas_of(policy(), "unknown") == []
    assert component_of(policy(maxInFlight=1, users=["alice"]), "alice") == "drain"
    assert component_of(policy(maxInFlight=1, users=["alice"]), "bob") == ""
