"""Karmada's ClusterTaintPolicy: which conditions of a cluster add or remove taints."""

from typing import Annotated

from trimtab.api.admission.taint_policy import check_taint_policy
from trimtab.api.kind import kind
from trimtab.api.kinds.policy import ClusterAffinity
from trimtab.api.value import Field, Object, Value, never_omit


class MatchCondition(Value):
    condition_type: Annotated[str, Field("The type of the cluster's condition.", required=True)] = never_omit("")
    operator: Annotated[
        str, Field("How its status is compared with the values.", required=True, enum=("In", "NotIn"))
    ] = never_omit("")
    status_values: Annotated[tuple[str, ...], Field("The statuses to compare with.", required=True)] = never_omit(())


class PolicyTaint(Value):
    key: Annotated[str, Field("The name of the taint.", required=True)] = never_omit("")
    effect: Annotated[str, Field("Its effect: NoSchedule or NoExecute.", required=True)] = never_omit("")
    value: Annotated[str, Field("Its value.")] = ""


class ClusterTaintPolicySpec(Value):
    target_clusters: Annotated[ClusterAffinity | None, Field("The clusters; absent means all.")] = None
    add_on_conditions: Annotated[
        tuple[MatchCondition, ...], Field("The taints are added when all of these match; empty means never.")
    ] = ()
    remove_on_conditions: Annotated[
        tuple[MatchCondition, ...], Field("The taints are removed when all of these match; empty means never.")
    ] = ()
    taints: Annotated[tuple[PolicyTaint, ...], Field("The taints.", required=True, min_items=1)] = never_omit(())


@kind(
    group="policy.karmada.io",
    version="v1alpha1",
    plural="clustertaintpolicies",
    namespaced=False,
    admission_validators=(check_taint_policy,),
    text="Adds and removes taints of clusters by their conditions.",
)
class ClusterTaintPolicy(Object):
    spec: Annotated[ClusterTaintPolicySpec, Field("The conditions and the taints.", required=True)] = never_omit(
        ClusterTaintPolicySpec()
    )
