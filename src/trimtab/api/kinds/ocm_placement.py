"""Kinds of Open Cluster Management that select clusters: Placement, PlacementDecision and AddOnPlacementScore."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.kind import Column, OtherVersion, kind
from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP, KEY_PATTERN, TAINT_EFFECTS, Conditions
from trimtab.api.kinds.policy import AddOnScore, PrioritizerPolicy
from trimtab.api.paths import map_objects_at, object_at, value_at
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import (
    Field,
    Int32,
    Int64,
    IntOrString,
    Object,
    Raw,
    Value,
    never_omit,
)

NUMBER_OR_PERCENT = r"^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$"


class ClaimSelectorRequirement(Value):
    key: Annotated[str, Field("The name of the claim.", required=True)] = never_omit("")
    operator: Annotated[
        str, Field("How the claim is compared with the values: In, NotIn, Exists or DoesNotExist.", required=True)
    ] = never_omit("")
    values: Annotated[tuple[str, ...], Field("The values to compare with.", list_type="atomic")] = ()


class ClusterClaimSelector(Value):
    match_expressions: Annotated[
        tuple[ClaimSelectorRequirement, ...], Field("Requirements on claims; all must match.", list_type="atomic")
    ] = ()


class ClusterCelSelector(Value):
    cel_expressions: Annotated[tuple[str, ...], Field("CEL expressions over `managedCluster`; all must be true.")] = ()


class ClusterSelector(Value):
    """Selects clusters; all parts must match."""

    label_selector: Annotated[LabelSelector | None, Field("By labels.")] = None
    claim_selector: Annotated[ClusterClaimSelector | None, Field("By claims.")] = None
    cel_selector: Annotated[ClusterCelSelector | None, Field("By CEL expressions.")] = None


class GroupClusterSelector(Value):
    """Selects the clusters of a decision group; all parts must match."""

    label_selector: Annotated[LabelSelector | None, Field("By labels.")] = None
    claim_selector: Annotated[ClusterClaimSelector | None, Field("By claims.")] = None


class ClusterPredicate(Value):
    required_cluster_selector: Annotated[ClusterSelector, Field("The clusters that the predicate selects.")] = (
        ClusterSelector()
    )


class SpreadConstraintsTerm(Value):
    topology_key: Annotated[
        str, Field("The label or claim that groups clusters.", required=True, max_length=316, pattern=KEY_PATTERN)
    ] = never_omit("")
    topology_key_type: Annotated[
        str, Field("Whether it is a label or a claim.", required=True, enum=("Label", "Claim"))
    ] = never_omit("")
    max_skew: Annotated[
        Int32, Field("The maximum difference between the groups with most and fewest clusters.", default=1, minimum=1)
    ] = 1
    when_unsatisfiable: Annotated[
        str,
        Field(
            "What to do when the constraint cannot be satisfied.",
            default="ScheduleAnyway",
            enum=("DoNotSchedule", "ScheduleAnyway"),
        ),
    ] = "ScheduleAnyway"


class SpreadPolicy(Value):
    spread_constraints: Annotated[
        tuple[SpreadConstraintsTerm, ...], Field("How evenly the selected clusters are spread.", max_items=8)
    ] = ()


class PlacementToleration(Value):
    """A toleration of a managed cluster's taint."""

    key: Annotated[
        str, Field("The taint key; empty with Exists tolerates all.", max_length=316, pattern=KEY_PATTERN)
    ] = ""
    operator: Annotated[str, Field("Exists, or Equal, which also compares the value.", default="Equal")] = ""
    value: Annotated[str, Field("The taint value.", max_length=1024)] = ""
    effect: Annotated[str, Field("The taint effect; empty tolerates all.", enum=TAINT_EFFECTS)] = ""
    toleration_seconds: Annotated[Int64 | None, Field("How long the taint is tolerated after it was added.")] = None


class DecisionGroup(Value):
    group_name: Annotated[
        str,
        Field("The name of the group.", required=True, pattern="^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"),
    ] = never_omit("")
    group_cluster_selector: Annotated[
        GroupClusterSelector, Field("The selected clusters that belong to the group.", required=True)
    ] = never_omit(GroupClusterSelector())


class GroupStrategy(Value):
    decision_groups: Annotated[tuple[DecisionGroup, ...], Field("Named groups, in order.")] = ()
    clusters_per_decision_group: Annotated[
        IntOrString,
        Field(
            "The maximum number of clusters per group, as number or percent.", default="100%", pattern=NUMBER_OR_PERCENT
        ),
    ] = "100%"


class DecisionStrategy(Value):
    group_strategy: Annotated[GroupStrategy, Field("How decisions are grouped.")] = GroupStrategy()


class PlacementSpecBase(Value):
    """The fields that all versions of a Placement share: all except the prioritizers."""

    cluster_sets: Annotated[tuple[str, ...], Field("The cluster sets to select from; empty means all bound sets.")] = ()
    number_of_clusters: Annotated[Int32 | None, Field("The number of clusters to select; absent means all.")] = None
    predicates: Annotated[
        tuple[ClusterPredicate, ...], Field("A cluster may be selected when any of these matches.")
    ] = ()
    spread_policy: Annotated[SpreadPolicy, Field("How evenly the selected clusters are spread.")] = SpreadPolicy()
    tolerations: Annotated[tuple[PlacementToleration, ...], Field("Tolerations of cluster taints.")] = ()
    decision_strategy: Annotated[DecisionStrategy, Field("How decisions are grouped.")] = DecisionStrategy()
    sort_by: Annotated[
        str, Field("How decisions are ordered.", default="ClusterName", enum=("ClusterName", "Score"))
    ] = "ClusterName"
    score_rate_limit: Annotated[
        str,
        Field(
            "The minimum interval between decision changes because of scores.", default="1m", pattern="^[0-9]+[hms]$"
        ),
    ] = "1m"


class PlacementSpec(PlacementSpecBase):
    prioritizer_policy: Annotated[PrioritizerPolicy, Field("How clusters are prioritized.")] = PrioritizerPolicy()


class DecisionGroupStatus(Value):
    decision_group_index: Annotated[Int32, Field("The index of the group, from 0.", required=True)] = never_omit(0)
    decision_group_name: Annotated[str, Field("The name of the group, if it has one.")] = ""
    decisions: Annotated[tuple[str, ...], Field("The PlacementDecisions of the group.")] = ()
    clusters_count: Annotated[Int32, Field("The number of clusters of the group.", default=0)] = msgspec.field(
        default_factory=lambda: 0, name="clusterCount"
    )


class PlacementStatus(Value):
    number_of_selected_clusters: Annotated[Int32, Field("The number of selected clusters.")] = never_omit(0)
    decision_groups: Annotated[tuple[DecisionGroupStatus, ...], Field("The groups of decisions.")] = ()
    conditions: Conditions = ()
    last_score_update_time: Annotated[datetime | None, Field("When scores last changed the decisions.")] = None


class ScoreCoordinateV1Alpha1(Value):
    """A reference to a score; both spellings of `builtIn` are accepted."""

    type: Annotated[
        str,
        Field("A built-in score, or one from an AddOnPlacementScore.", enum=("BuildIn", "BuiltIn", "AddOn", "")),
    ] = ""
    build_in: Annotated[str, Field("The built-in score, in the first spelling.")] = ""
    built_in: Annotated[str, Field("The built-in score.")] = ""
    add_on: Annotated[AddOnScore | None, Field("The location of the add-on's score.")] = None


class PrioritizerConfigV1Alpha1(Value):
    name: Annotated[str, Field("The built-in score, when there is no coordinate.")] = ""
    score_coordinate: Annotated[ScoreCoordinateV1Alpha1 | None, Field("The score.")] = None
    weight: Annotated[
        Int32 | None,
        Field("The weight; negative weights invert the score, 0 disables it.", default=1, minimum=-10, maximum=10),
    ] = None


class PrioritizerPolicyV1Alpha1(Value):
    mode: Annotated[
        str,
        Field(
            "Additive adds the configurations to the default scores; Exact uses only the configurations.",
            default="Additive",
        ),
    ] = ""
    configurations: Annotated[tuple[PrioritizerConfigV1Alpha1, ...], Field("The scores and their weights.")] = ()


class PlacementSpecV1Alpha1(PlacementSpecBase):
    prioritizer_policy: Annotated[PrioritizerPolicyV1Alpha1, Field("How clusters are prioritized.")] = (
        PrioritizerPolicyV1Alpha1()
    )


class PlacementV1Alpha1(Object):
    """The Placement of v1alpha1, whose prioritizers may be given by name."""

    spec: Annotated[PlacementSpecV1Alpha1, Field("The clusters to select.", required=True)] = never_omit(
        PlacementSpecV1Alpha1()
    )
    status: Annotated[PlacementStatus, Field("The number of selected clusters and the conditions.")] = PlacementStatus()


def _config_from_v1alpha1(config: Raw) -> Raw:
    coordinate = dict(object_at(config, "scoreCoordinate"))
    if coordinate.get("type") in ("BuiltIn", "AddOn") and "name" not in config and "buildIn" not in coordinate:
        return config
    built_in = coordinate.pop("builtIn", "") or coordinate.pop("buildIn", "")
    coordinate.pop("buildIn", None)
    if coordinate.get("type") in (None, "", "BuildIn"):
        coordinate["type"] = "BuiltIn"
    if coordinate["type"] == "BuiltIn" and (built_in or config.get("name")):
        coordinate["builtIn"] = built_in or config["name"]
    rest = {key: value for key, value in config.items() if key not in ("name", "scoreCoordinate")}
    return {"scoreCoordinate": coordinate, **rest}


def _config_to_v1alpha1(config: Raw) -> Raw:
    name = value_at(config, "scoreCoordinate", "builtIn")
    return {"name": name, **config} if name else config


def _placement_from_v1alpha1(placement: Raw) -> Raw:
    return map_objects_at(placement, ("spec", "prioritizerPolicy", "configurations"), _config_from_v1alpha1)


def _placement_to_v1alpha1(placement: Raw) -> Raw:
    return map_objects_at(placement, ("spec", "prioritizerPolicy", "configurations"), _config_to_v1alpha1)


@kind(
    name="Placement",
    group=CLUSTER_GROUP,
    version="v1beta1",
    other_versions={
        "v1alpha1": OtherVersion(PlacementV1Alpha1, _placement_from_v1alpha1, _placement_to_v1alpha1, compatible=True)
    },
    plural="placements",
    normalizers=(_placement_from_v1alpha1,),
    status=True,
    columns=(
        Column("Succeeded", '.status.conditions[?(@.type=="PlacementSatisfied")].status'),
        Column("Reason", '.status.conditions[?(@.type=="PlacementSatisfied")].reason'),
        Column("SelectedClusters", ".status.numberOfSelectedClusters", "integer"),
    ),
    text="Selects clusters; the result is in its PlacementDecisions.",
)
class OcmPlacement(Object):
    spec: Annotated[PlacementSpec, Field("The clusters to select.", required=True)] = never_omit(PlacementSpec())
    status: Annotated[PlacementStatus, Field("The number of selected clusters and the conditions.")] = PlacementStatus()


class ClusterDecision(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = never_omit("")
    reason: Annotated[str, Field("Why the cluster was selected.", required=True)] = never_omit("")
    score: Annotated[Int64 | None, Field("The total score of the cluster.")] = None


class PlacementDecisionStatus(Value):
    decisions: Annotated[tuple[ClusterDecision, ...], Field("The clusters.", required=True)] = never_omit(())


@kind(
    group=CLUSTER_GROUP,
    version="v1beta1",
    other_versions={"v1alpha1": OtherVersion(compatible=True)},
    plural="placementdecisions",
    status=True,
    text="Clusters that a Placement selected.",
)
class PlacementDecision(Object):
    status: Annotated[PlacementDecisionStatus | None, Field("The clusters.")] = None


class AddOnScoreValue(Value):
    name: Annotated[str, Field("The name of the score.", required=True)] = never_omit("")
    value: Annotated[Int32, Field("The score.", required=True, minimum=-100, maximum=100)] = never_omit(0)


class AddOnPlacementScoreStatus(Value):
    conditions: Conditions = ()
    scores: Annotated[tuple[AddOnScoreValue, ...], Field("The scores.", list_type="map", map_keys=("name",))] = ()
    valid_until: Annotated[datetime | None, Field("When the scores expire; absent means never.")] = None


@kind(
    group=CLUSTER_GROUP,
    version="v1alpha1",
    plural="addonplacementscores",
    status=True,
    text="Scores of one cluster, written by an add-on; the namespace determines the cluster.",
)
class AddOnPlacementScore(Object):
    status: Annotated[AddOnPlacementScoreStatus, Field("The scores.")] = AddOnPlacementScoreStatus()
