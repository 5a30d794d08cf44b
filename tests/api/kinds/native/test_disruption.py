from datetime import UTC, datetime

from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.disruption import PodDisruptionBudget


def test_budget_keeps_percentages_and_distinguishes_zero_from_missing() -> None:
    spec = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}
    budget = decode(PodDisruptionBudget, {"metadata": {"name": "b"}, "spec": spec})
    assert (budget.spec.min_available, budget.spec.max_unavailable) == ("50%", None)
    assert budget.spec.selector is not None
    assert budget.spec.selector.matches({"app": "a"})
    zero = decode(PodDisruptionBudget, {"metadata": {"name": "b"}, "spec": {"maxUnavailable": 0}})
    assert zero.spec.max_unavailable == 0


def test_status_keeps_the_eviction_times_of_disrupted_pods() -> None:
    status = {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}
    budget = decode(PodDisruptionBudget, {"metadata": {"name": "b"}, "status": status})
    assert budget.status.disruptions_allowed == 1
    assert budget.status.disrupted_pods == {"p": datetime(2026, 1, 1, tzinfo=UTC)}
