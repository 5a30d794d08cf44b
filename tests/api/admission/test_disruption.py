"""Defaulting and validation of DisruptionBudget and DisruptionPolicy."""

from typing import Any

from api.admission.admission_helpers import errors_of, with_defaults


def test_invalid_budget_is_rejected() -> None:
    def budget(**spec: Any) -> list[str]:
        return errors_of("disruptionbudgets.trimtab.dev", {"spec": spec})

    assert budget(minAvailable="50%") == []
    assert budget(minAvailable=1, maxUnavailable=1) != []
    assert budget(minAvailable="half") != []
    assert budget(maxUnavailable="120%") != []
    assert budget(rate={"disruptions": 1, "period": "0s"}) != []
    assert budget(rate={"disruptions": 1, "period": "1h30m"}) == []
    assert budget(windows=[{"schedule": "noon", "duration": "1h"}]) != []
    assert budget(windows=[{"schedule": "0 2 * * *", "duration": "1h", "timeZone": "Europe/Berlin"}]) == []
    assert len(budget(windows=[{"schedule": "0 99 * * *", "duration": "1h", "timeZone": "Mars/North"}])) == 2
    assert len(budget(windows=[{"schedule": "0 2 * * *", "duration": "1h", "timeZone": "Europe"}])) == 1
    assert len(budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}]})) == 1


def test_budget_target_defaults_to_workloads_on_a_control_plane() -> None:
    for given, target in (({}, "Workloads"), ({"target": "Pods"}, "Pods")):
        assert with_defaults("disruptionbudgets.trimtab.dev", {"spec": given})["spec"]["target"] == target


def test_disruption_policy_must_be_named_default_and_have_valid_limits() -> None:
    assert errors_of("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}}) == []
    assert errors_of("disruptionpolicies.trimtab.dev", {"metadata": {"name": "mine"}}) != []
    odd = {"storm": {"slowAbove": "many", "stopAbove": "60%"}, "evictionRate": {"perSecond": "fast"}}
    assert len(errors_of("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": odd})) == 2
    fine = {"storm": {"slowAbove": 2, "stopAbove": "60%"}, "evictionRate": {"perSecond": "0.1"}}
    assert errors_of("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": fine}) == []


def test_errors_in_lists_of_a_disruption_policy_name_the_item() -> None:
    def policy(**spec: Any) -> list[str]:
        return errors_of("disruptionpolicies.trimtab.dev", {"metadata": {"name": "default"}, "spec": spec})

    hourly = {"disruptions": 1, "period": "1h"}
    assert policy(floors=[{"minMaxUnavailable": "10%", "minRate": hourly}], componentQuotas=[{"rate": hourly}]) == []
    (error,) = policy(defaultBudgets=[{"maxUnavailable": "10%"}, {"maxUnavailable": "ten"}])
    assert error.startswith("spec.defaultBudgets[1].maxUnavailable: ")
    (error,) = policy(componentQuotas=[{"rate": {"disruptions": 1, "period": "0h"}}])
    assert error.startswith("spec.componentQuotas[0].rate.period: ")
    (error,) = policy(floors=[{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}])
    assert error.startswith("spec.floors[0].namespaceSelector.matchExpressions[0].operator: ")
