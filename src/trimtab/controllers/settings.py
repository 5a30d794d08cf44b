"""The settings that users may give to the controllers, with their types and defaults."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from trimtab.api.kinds.policy import CLUSTER_PURGE_MODES
from trimtab.api.profile import Profile
from trimtab.controllers.contract import View


class Setting(NamedTuple):
    """One setting: what `--set NAME=VALUE` and `settings:` of a story accept."""

    name: str
    type: type
    default: Any
    """The default, or a function of the profile where the profiles differ."""
    text: str
    choices: tuple[str, ...] = ()
    """The only values, if there are few."""


def _evacuation_delay(profile: Profile) -> int:
    return profile.evacuate_after_seconds


def _off_upstream(profile: Profile) -> bool:
    """For features that are off in Karmada unless a feature gate switches them on."""
    return profile.name == "trimtab"


_TABLE = (
    Setting(
        "agent", str, "", "Name of the cluster that this process serves as a pull agent; empty in a control plane."
    ),
    Setting("components", bool, False, "Schedule the components of a workload with several pod templates separately."),
    Setting("quota-enforcement", bool, _off_upstream, "Refuse placements beyond a FederatedResourceQuota."),
    Setting("quota-estimate", bool, False, "Place no more replicas than ResourceQuotas in clusters allow."),
    Setting(
        "overcommit-protection",
        bool,
        False,
        "Count what was placed in the last five minutes as used until it is healthy.",
    ),
    Setting("workload-affinity", bool, _off_upstream, "Place workloads of a group together or apart, as policies say."),
    Setting("policy-preemption", bool, True, "Let policies with `preemption: Always` take resources over from others."),
    Setting("failover", bool, True, "Evict from clusters with NoExecute taints, and apply ClusterTaintPolicies."),
    Setting("eviction-rate", float, 1.5, "Evictions by taint per second while the fleet is healthy."),
    Setting(
        "eviction-purge-mode",
        str,
        "Gracefully",
        "Purge mode of evictions by taint when the policy sets none.",
        CLUSTER_PURGE_MODES,
    ),
    Setting("graceful-eviction-timeout", int, 600, "Seconds after which a graceful eviction removes the old copy."),
    Setting("move-timeout-seconds", int, 600, "Seconds after which a move without a ready replacement is reverted."),
    Setting("descheduler", bool, _off_upstream, "Reschedule replicas that no node of their cluster accepts."),
    Setting("unschedulable-threshold", float, 300, "Seconds a replica is unschedulable before it is rescheduled."),
    Setting("cluster-failure-threshold", float, 30, "Seconds of failed probes before a cluster becomes not ready."),
    Setting("cluster-success-threshold", float, 30, "Seconds of successful probes before a cluster becomes ready."),
    Setting("cluster-startup-grace-period", float, 60, "Seconds in which a new pull cluster must report first."),
    Setting(
        "cluster-monitor-grace-period", float, 40, "Seconds without a renewed Lease before a pull cluster is unknown."
    ),
    Setting("evacuate-after-seconds", int, _evacuation_delay, "Seconds not ready before a NoExecute taint; 0: never."),
    Setting(
        "pod-budget-floors",
        bool,
        False,
        "Keep a PodDisruptionBudget for every DisruptionBudget over pods, which holds while no webhook answers.",
    ),
    Setting("managed-cluster-sync", bool, True, "Keep a ManagedCluster for every Cluster."),
)
MAX_NUMBER = 1_000_000_000
"""More seconds than that are no time that a clock reaches."""
SETTINGS = {setting.name: setting for setting in _TABLE}


def value_fault(setting: Setting, value: object) -> str:
    """Why the setting cannot have this value; empty when it can."""
    if not _is_value_of(setting.type, value):
        return f"expected {setting.type.__name__}"
    if setting.choices and value not in setting.choices:
        return f"expected one of {', '.join(setting.choices)}"
    if isinstance(value, int | float) and not 0 <= value <= MAX_NUMBER:
        return f"expected a number from 0 to {MAX_NUMBER:,}"
    return ""


def known_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of these that this version knows and that have a value of their type."""
    return {
        name: value for name, value in given.items() if name in SETTINGS and _is_value_of(SETTINGS[name].type, value)
    }


def _is_value_of(type_: type, value: object) -> bool:
    if isinstance(value, bool):
        return type_ is bool
    return isinstance(value, type_) or (type_ is float and isinstance(value, int))


def default_of(setting: Setting, profile: Profile) -> Any:
    return setting.default(profile) if callable(setting.default) else setting.default


def setting(view: View, name: str) -> Any:
    """The value of a setting: what the user gave, or the default."""
    return value_of(name, view.settings, view.profile)


def value_of(name: str, given: Mapping[str, Any], profile: Profile) -> Any:
    """The value of a setting where these settings are given: that, or the default of the profile."""
    value = given.get(name)
    return default_of(SETTINGS[name], profile) if value is None else value
