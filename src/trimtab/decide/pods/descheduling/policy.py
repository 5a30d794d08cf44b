"""Reads a DeschedulerPolicy (descheduler/v1alpha2) and computes the evictions of one cycle."""

import msgspec

from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.selectors import parse_selector
from trimtab.api.value import Raw, Value
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import CycleLimits, DeschedulingCycle, PlannedEviction
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs, parse_go_duration
from trimtab.decide.pods.descheduling.movers import movers, run_mover
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.metrics.utilisation import KUBERNETES_METRICS, PROMETHEUS
from trimtab.errors import InputError

DEFAULT_EVICTOR = "DefaultEvictor"


class PluginConfig(Value):
    name: str = ""
    args: Raw = {}


class PluginSet(Value):
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()

    def active_plugins(self) -> list[str]:
        return [name for name in self.enabled if name not in self.disabled]


class Plugins(Value):
    deschedule: PluginSet = PluginSet()
    balance: PluginSet = PluginSet()


class PolicyProfile(Value):
    name: str = ""
    plugin_config: tuple[PluginConfig, ...] = ()
    plugins: Plugins = Plugins()

    def arguments(self, name: str) -> Raw:
        return next((config.args for config in self.plugin_config if config.name == name), {})


class MetricsProvider(Value):
    source: str = ""


class MetricsCollector(Value):
    """The deprecated way to name the provider KubernetesMetrics."""

    enabled: bool = False


class DeschedulerPolicy(Value):
    profiles: tuple[PolicyProfile, ...] = ()
    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    grace_period_seconds: int | None = None
    eviction_failure_event_notification: bool = False
    metrics_providers: tuple[MetricsProvider, ...] = ()
    metrics_collector: MetricsCollector = MetricsCollector()

    @property
    def uses_metrics(self) -> bool:
        """Whether a plugin of the policy uses metrics."""
        return any(
            msgspec.convert(profile.arguments(name), movers[name].args, strict=False).uses_metrics
            for profile in self.profiles
            for name in (*profile.plugins.deschedule.active_plugins(), *profile.plugins.balance.active_plugins())
        )

    def validation_error(self) -> str:
        """Return what is wrong with its metrics providers; empty when they are valid."""
        sources = [one.source for one in self.metrics_providers]
        if unknown := set(sources) - {KUBERNETES_METRICS, PROMETHEUS}:
            return f"metricsProviders: unknown source {min(unknown)!r}"
        if duplicate := next((one for one in sources if sources.count(one) > 1), ""):
            return f"metricsProviders: {duplicate} is listed twice"
        if self.uses_metrics and KUBERNETES_METRICS not in sources and not self.metrics_collector.enabled:
            return f"metricsUtilization needs an entry in metricsProviders with the source {KUBERNETES_METRICS}"
        return ""


def read_policy(raw: Raw) -> DeschedulerPolicy:
    """Convert and validate the policy of a decoded file; errors name the profile and the plugin."""
    if raw.get("kind") != "DeschedulerPolicy":
        raise InputError(f"kind is {raw.get('kind')!r}, not DeschedulerPolicy")
    try:
        policy = msgspec.convert(raw, DeschedulerPolicy, strict=False)
        for profile in policy.profiles:
            _validate_profile(profile)
        if problem := policy.validation_error():
            raise InputError(problem)
    except msgspec.ValidationError as error:
        raise InputError(f"the DeschedulerPolicy cannot be read: {error}") from error
    return policy


def _validate_profile(profile: PolicyProfile) -> None:
    evictor = msgspec.convert(profile.arguments(DEFAULT_EVICTOR), EvictorArgs, strict=False)
    if problem := evictor.validation_error():
        raise InputError(f"profile {profile.name}: {DEFAULT_EVICTOR}: {problem}")
    if evictor.min_pod_age:
        parse_go_duration(evictor.min_pod_age)
    for plugins, balances in ((profile.plugins.deschedule, False), (profile.plugins.balance, True)):
        for name in plugins.active_plugins():
            if name not in movers or movers[name].balances != balances:
                point = "balance" if balances else "deschedule"
                raise InputError(f"profile {profile.name}: there is no {point} plugin {name}")
            if problem := msgspec.convert(profile.arguments(name), movers[name].args, strict=False).validation_error():
                raise InputError(f"profile {profile.name}: {name}: {problem}")


def planned_evictions(
    policy: DeschedulerPolicy, cluster_view: ClusterView, profile: Profile = UPSTREAM
) -> list[PlannedEviction]:
    """Return the evictions of one cycle."""
    return run_cycle(policy, cluster_view, profile).evictions


def run_cycle(
    policy: DeschedulerPolicy,
    cluster_view: ClusterView,
    profile: Profile = UPSTREAM,
    metrics: UsageMetrics | None = None,
) -> DeschedulingCycle:
    """Run one cycle of a policy: first the deschedule plugins of all profiles, then the balance plugins."""
    limits = CycleLimits(
        policy.max_no_of_pods_to_evict_per_node,
        policy.max_no_of_pods_to_evict_per_namespace,
        policy.max_no_of_pods_to_evict_total,
    )
    selected = (
        cluster_view.with_node_selector(parse_selector(policy.node_selector)) if policy.node_selector else cluster_view
    )
    current = DeschedulingCycle(selected, profile, limits, metrics)
    for balances in (False, True):
        for one in policy.profiles:
            evictor = msgspec.convert(one.arguments(DEFAULT_EVICTOR), EvictorArgs, strict=False)
            for name in (one.plugins.balance if balances else one.plugins.deschedule).active_plugins():
                run_mover(name, one.arguments(name), current, evictor)
    return current
