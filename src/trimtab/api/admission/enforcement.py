"""Where the checks of every kind are enforced on a kube-apiserver: the table from which everything is generated.

The functions in `api/admission` are the checks. The embedded API server calls them. A kube-apiserver cannot, so most of
them are repeated as schema keywords and CEL rules in the CRDs (`api/schema/cel_rules.py`), some as admission policies
(`api/admission/policies.py`), and the rest is done by `trimtab webhook`, which calls the same functions. CRDs, policies and
webhook configurations are generated from this table; the parity tests compare all of them on the same objects.

A kind is in the webhook only for what the schema and the policies cannot express: an API server whose webhook does not
answer still refuses everything else.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trimtab.api.kind import Kind


class Enforcement(NamedTuple):
    """What only the webhook checks for a kind."""

    webhook: str = ""
    """The checks that only the webhook does, as a noun phrase; empty if the schema and the policies do everything."""
    condition: str = ""
    """A CEL expression: the webhook is called only for objects for which it is true."""


_DEPENDENCIES = "resourcebinding.karmada.io/dependencies"
_HAS_DEPENDENCIES = f"has(object.metadata.annotations) && '{_DEPENDENCIES}' in object.metadata.annotations"
_BINDING = Enforcement("the list of dependencies in the annotation", _HAS_DEPENDENCIES)

ENFORCEMENT: Mapping[str, Enforcement] = {
    "propagationpolicies.policy.karmada.io": Enforcement(),
    "clusterpropagationpolicies.policy.karmada.io": Enforcement(),
    "overridepolicies.policy.karmada.io": Enforcement(),
    "clusteroverridepolicies.policy.karmada.io": Enforcement(),
    "clustertaintpolicies.policy.karmada.io": Enforcement("NoExecute taints, which a setting must allow"),
    "federatedresourcequotas.policy.karmada.io": Enforcement("sums of quantities"),
    "resourcebindings.work.karmada.io": _BINDING,
    "clusterresourcebindings.work.karmada.io": _BINDING,
    "multiclusterservices.networking.karmada.io": Enforcement(),
    "cronfederatedhpas.autoscaling.karmada.io": Enforcement("schedules and time zones, and bounds of replicas"),
    "resourceinterpretercustomizations.config.karmada.io": Enforcement("scripts that do not compile"),
    "resourceinterpreterwebhookconfigurations.config.karmada.io": Enforcement("names, URLs and rules of webhooks"),
    "clusters.cluster.karmada.io": Enforcement("bounds of resource models"),
    "workloadrebalancers.apps.karmada.io": Enforcement("schedules, and namespaces by the scope of a kind"),
    "managedclusters.cluster.open-cluster-management.io": Enforcement(
        "permissions to accept a cluster and to move it between sets, and times of taints"
    ),
    "managedclustersetbindings.cluster.open-cluster-management.io": Enforcement("the permission to bind a set"),
    "manifestworks.work.open-cluster-management.io": Enforcement(
        "names and sizes of manifests, and the permission to act as the executor"
    ),
    "manifestworkreplicasets.work.open-cluster-management.io": Enforcement("names and sizes of manifests"),
    "disruptionbudgets.trimtab.dev": Enforcement("schedules, time zones, durations and percentages"),
    "disruptionpolicies.trimtab.dev": Enforcement("durations, percentages and rates"),
    "priorityorders.trimtab.dev": Enforcement("the values of priority classes"),
}


FILLED_KINDS = ("clusters.cluster.karmada.io",)
"""Kinds whose own defaults, beyond those of a schema, the webhook sets besides `admission_defaults`."""

CHECKED_BEFORE_SCHEMA = (
    "managedclusters.cluster.open-cluster-management.io",
    "managedclustersetbindings.cluster.open-cluster-management.io",
)
"""Kinds that the webhook checks when it sets defaults: their denials have code 400, those of the schema 422."""


def checked_kinds(kinds: Iterable[Kind]) -> list[Kind]:
    """The kinds that the webhook checks."""
    return [kind for kind in kinds if ENFORCEMENT.get(kind.id, Enforcement()).webhook]


def filled_kinds(kinds: Iterable[Kind]) -> list[Kind]:
    """The kinds whose defaults the webhook sets."""
    early = (*FILLED_KINDS, *CHECKED_BEFORE_SCHEMA)
    return [kind for kind in kinds if kind.id in ENFORCEMENT and (kind.admission_defaults or kind.id in early)]
