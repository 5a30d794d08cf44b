"""The flag `--feature-gates`: names of Karmada's feature gates and the settings that they stand for."""

import click

SETTING_OF_GATE = {
    "Failover": "failover",
    "PropagationPolicyPreemption": "policy-preemption",
    "MultiplePodTemplatesScheduling": "components",
    "FederatedQuotaEnforcement": "quota-enforcement",
    "ResourceQuotaEstimate": "quota-estimate",
    "SchedulingOvercommitProtection": "overcommit-protection",
    "WorkloadAffinity": "workload-affinity",
}
ALWAYS_ON = frozenset(
    {
        "ContextualLogging",
        "ControllerPriorityQueue",
        "CustomizedClusterResourceModeling",
        "GracefulEviction",
        "MultiClusterService",
        "PriorityBasedScheduling",
        "PropagateDeps",
        "StatefulFailoverInjection",
    }
)
"""Features that have no switch here."""
ALL = ("AllAlpha", "AllBeta")


def parse_feature_gates(text: str) -> dict[str, object]:
    """The settings that `Name=true,Other=false` gives; an unknown name, or switching off what has no switch, is refused."""
    settings: dict[str, object] = {}
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        if value not in ("true", "false"):
            raise click.UsageError(f"--feature-gates {pair}: expected NAME=true or NAME=false")
        is_on = value == "true"
        if name in SETTING_OF_GATE:
            settings[SETTING_OF_GATE[name]] = is_on
        elif name in ALL and is_on:
            settings = {**dict.fromkeys(SETTING_OF_GATE.values(), True), **settings}
        elif name not in ALWAYS_ON and name not in ALL:
            known = ", ".join(sorted({*SETTING_OF_GATE, *ALWAYS_ON, *ALL}))
            raise click.UsageError(f"--feature-gates {pair}: there is no feature gate {name}; there are {known}")
        elif not is_on and name in ALWAYS_ON:
            raise click.UsageError(f"--feature-gates {pair}: {name} cannot be switched off")
    return settings
