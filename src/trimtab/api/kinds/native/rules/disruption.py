"""What kube-apiserver rejects in PodDisruptionBudgets."""

from collections.abc import Sequence

from trimtab.api.field_errors import invalid
from trimtab.api.kinds.native.rules import common
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


def check_pod_disruption_budget(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    has_both = spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None
    if has_both:
        go_spec = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        found.append(invalid("spec", go_spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            found += common.check_count_or_percent(spec[name], f"spec.{name}")
            found += common.check_at_most_100_percent(spec[name], f"spec.{name}")
    found += common.check_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        choices = ("AlwaysAllow", "IfHealthyBudget")
        found += common.check_one_of(policy, choices, "spec.unhealthyPodEvictionPolicy")
    return found
