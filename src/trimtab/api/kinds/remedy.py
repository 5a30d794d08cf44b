"""Karmada's Remedy: actions to take when a cluster has certain conditions."""

from typing import Annotated

from trimtab.api.kind import kind
from trimtab.api.value import Field, Object, Value, never_omit


class RemedyAffinity(Value):
    cluster_names: Annotated[tuple[str, ...], Field("The clusters.")] = ()


class ClusterConditionMatch(Value):
    condition_type: Annotated[str, Field("The type of the condition.", required=True)] = never_omit("")
    operator: Annotated[
        str, Field("How the status of the condition is compared.", required=True, enum=("Equal", "NotEqual"))
    ] = never_omit("")
    condition_status: Annotated[str, Field("The status to compare with.", required=True)] = never_omit("")


class DecisionMatch(Value):
    cluster_condition_match: Annotated[ClusterConditionMatch | None, Field("A condition of the cluster.")] = None


class RemedySpec(Value):
    cluster_affinity: Annotated[RemedyAffinity | None, Field("The clusters; absent means all.")] = None
    decision_matches: Annotated[
        tuple[DecisionMatch, ...], Field("When to act: when any of these matches; empty means always.")
    ] = ()
    actions: Annotated[tuple[Annotated[str, Field(enum=("TrafficControl",))], ...], Field("The actions to take.")] = ()


@kind(
    group="remedy.karmada.io",
    version="v1alpha1",
    plural="remedies",
    categories=("karmada-io",),
    namespaced=False,
    text="Takes actions when a cluster has certain conditions.",
)
class Remedy(Object):
    spec: Annotated[RemedySpec, Field("The conditions and the actions.")] = RemedySpec()
