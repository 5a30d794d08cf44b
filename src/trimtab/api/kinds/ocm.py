"""Open Cluster Management's kinds: sets of clusters, placements with their decisions and scores, and works."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.ocm import check_managed_cluster, check_set_binding, join_default_set
from trimtab.api.admission.raw import at, change_items, mapping
from trimtab.api.kind import Column, OtherVersion, kind
from trimtab.api.kinds.policy import AddOnScore, PrioritizerPolicy
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import (
    Condition,
    Field,
    Int32,
    Int64,
    IntOrString,
    Object,
    QuantityText,
    Raw,
    Value,
    always,
)

CLUSTER_GROUP = "cluster.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"
TAINT_EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_DURATION_PATTERN = "^(([0-9])+[h|m|s])|None$"
_NUMBER_OR_PERCENT = r"^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$"

Conditions = Annotated[tuple[Condition, ...], Field("What was observed.", list_type="map", map_keys=("type",))]


class ClientConfig(Value):
    url: Annotated[str, Field("The address of the cluster's API server.", required=True)] = always("")
    ca_bundle: Annotated[str, Field("The certificate authority of that server.", format="byte")] = ""


class ManagedClusterTaint(Value):
    """A mark on a managed cluster that repels placements which do not tolerate it."""

    key: Annotated[str, Field("The name of the taint.", required=True, max_length=316, pattern=_KEY_PATTERN)] = always(
        ""
    )
    value: Annotated[str, Field("Its value.", max_length=1024)] = ""
    effect: Annotated[
        str, Field("What happens to placements that do not tolerate it.", required=True, enum=TAINT_EFFECTS)
    ] = always("")
    time_added: Annotated[datetime | None, Field("When the taint was put there.", nullable=True)] = None


class ManagedClusterSpec(Value):
    managed_cluster_client_configs: Annotated[tuple[ClientConfig, ...], Field("How the cluster is reached.")] = ()
    hub_accepts_client: Annotated[bool, Field("The hub accepts the cluster.")] = False
    lease_duration_seconds: Annotated[Int32, Field("How often the agent renews its lease.", default=60)] = 0
    taints: Annotated[tuple[ManagedClusterTaint, ...], Field("What repels placements.")] = ()


class ManagedClusterVersion(Value):
    kubernetes: Annotated[str, Field("The version of Kubernetes.")] = ""


class ManagedClusterClaim(Value):
    name: Annotated[str, Field("The name of the claim.", min_length=1, max_length=253)] = ""
    value: Annotated[str, Field("What the cluster claims.", min_length=1, max_length=1024)] = ""


class ManagedNamespaceStatus(Value):
    cluster_set: Annotated[str, Field("The set that asks for the namespace.", required=True)] = always("")
    name: Annotated[str, Field("The namespace.", required=True, max_length=63)] = always("")
    conditions: Conditions = ()


class ManagedClusterStatus(Value):
    conditions: Conditions = ()
    capacity: Annotated[dict[str, QuantityText], Field("What all nodes together have.")] = {}
    allocatable: Annotated[dict[str, QuantityText], Field("What all nodes together offer.")] = {}
    version: Annotated[ManagedClusterVersion, Field("The versions of the cluster.")] = ManagedClusterVersion()
    cluster_claims: Annotated[tuple[ManagedClusterClaim, ...], Field("What the cluster says about itself.")] = ()
    managed_namespaces: Annotated[
        tuple[ManagedNamespaceStatus, ...],
        Field("Namespaces that sets ask for.", list_type="map", map_keys=("clusterSet", "name")),
    ] = ()


@kind(
    group=CLUSTER_GROUP,
    version="v1",
    plural="managedclusters",
    short=("mcl", "mcls"),
    namespaced=False,
    status=True,
    columns=(
        Column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
        Column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
        Column("Joined", '.status.conditions[?(@.type=="ManagedClusterJoined")].status'),
        Column("Available", '.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status'),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    admission_defaults=(join_default_set,),
    admission_validators=(check_managed_cluster,),
    text="A member cluster in the words of Open Cluster Management.",
)
class ManagedCluster(Object):
    spec: Annotated[ManagedClusterSpec, Field("Whether and how the cluster takes part.", required=True)] = always(
        ManagedClusterSpec()
    )
    status: Annotated[ManagedClusterStatus, Field("What was last seen of the cluster.")] = ManagedClusterStatus()


class ManagedClusterSelector(Value):
    selector_type: Annotated[
        str,
        Field(
            "By the label that names one set, or by any selector.",
            required=True,
            enum=("ExclusiveClusterSetLabel", "LabelSelector"),
            default="ExclusiveClusterSetLabel",
        ),
    ] = always("")
    label_selector: Annotated[LabelSelector | None, Field("The selector; absent selects nothing.")] = None


class ManagedNamespace(Value):
    name: Annotated[
        str, Field("The namespace.", required=True, max_length=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = always("")


class ManagedClusterSetSpec(Value):
    cluster_selector: Annotated[
        ManagedClusterSelector,
        Field("Which clusters belong to the set.", default={"selectorType": "ExclusiveClusterSetLabel"}),
    ] = ManagedClusterSelector()
    managed_namespaces: Annotated[
        tuple[ManagedNamespace, ...],
        Field("Namespaces that every cluster of the set shall have.", list_type="map", map_keys=("name",)),
    ] = ()


class ConditionsOnly(Value):
    conditions: Conditions = ()


@kind(
    group=CLUSTER_GROUP,
    version="v1beta2",
    plural="managedclustersets",
    short=("mclset", "mclsets"),
    namespaced=False,
    status=True,
    columns=(
        Column("Empty", '.status.conditions[?(@.type=="ClusterSetEmpty")].status'),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ),
    text="A set of managed clusters.",
)
class ManagedClusterSet(Object):
    spec: Annotated[
        ManagedClusterSetSpec,
        Field(
            "Which clusters belong to it.", default={"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
        ),
    ] = ManagedClusterSetSpec()
    status: Annotated[ConditionsOnly, Field("Whether the set is empty.")] = ConditionsOnly()


class ManagedClusterSetBindingSpec(Value):
    cluster_set: Annotated[str, Field("The set; the binding has the same name.", required=True, min_length=1)] = always(
        ""
    )


@kind(
    group=CLUSTER_GROUP,
    version="v1beta2",
    plural="managedclustersetbindings",
    short=("mclsetbinding", "mclsetbindings"),
    status=True,
    admission_validators=(check_set_binding,),
    text="Lets placements of its namespace use a set of clusters.",
)
class ManagedClusterSetBinding(Object):
    spec: Annotated[ManagedClusterSetBindingSpec, Field("Which set.")] = ManagedClusterSetBindingSpec()
    status: Annotated[ConditionsOnly, Field("Whether the set exists.")] = ConditionsOnly()


class ClaimSelectorRequirement(Value):
    key: Annotated[str, Field("The name of the claim.", required=True)] = always("")
    operator: Annotated[
        str, Field("How claim and values relate: In, NotIn, Exists or DoesNotExist.", required=True)
    ] = always("")
    values: Annotated[tuple[str, ...], Field("The values to compare with.", list_type="atomic")] = ()


class ClusterClaimSelector(Value):
    match_expressions: Annotated[
        tuple[ClaimSelectorRequirement, ...], Field("Rules about claims, all of which must hold.", list_type="atomic")
    ] = ()


class ClusterCelSelector(Value):
    cel_expressions: Annotated[
        tuple[str, ...], Field("Expressions about `managedCluster`, all of which must hold.")
    ] = ()


class ClusterSelector(Value):
    """Which clusters; all parts must hold."""

    label_selector: Annotated[LabelSelector | None, Field("By labels.")] = None
    claim_selector: Annotated[ClusterClaimSelector | None, Field("By claims.")] = None
    cel_selector: Annotated[ClusterCelSelector | None, Field("By expressions.")] = None


class GroupClusterSelector(Value):
    """Which clusters belong to a decision group; all parts must hold."""

    label_selector: Annotated[LabelSelector | None, Field("By labels.")] = None
    claim_selector: Annotated[ClusterClaimSelector | None, Field("By claims.")] = None


class ClusterPredicate(Value):
    required_cluster_selector: Annotated[ClusterSelector, Field("The clusters that this predicate lets through.")] = (
        ClusterSelector()
    )


class SpreadConstraintsTerm(Value):
    topology_key: Annotated[
        str, Field("The label or claim that groups clusters.", required=True, max_length=316, pattern=_KEY_PATTERN)
    ] = always("")
    topology_key_type: Annotated[
        str, Field("Whether it is a label or a claim.", required=True, enum=("Label", "Claim"))
    ] = always("")
    max_skew: Annotated[
        Int32, Field("By how many the fullest and the emptiest group may differ.", default=1, minimum=1)
    ] = 1
    when_unsatisfiable: Annotated[
        str,
        Field("What to do when that cannot be.", default="ScheduleAnyway", enum=("DoNotSchedule", "ScheduleAnyway")),
    ] = "ScheduleAnyway"


class SpreadPolicy(Value):
    spread_constraints: Annotated[
        tuple[SpreadConstraintsTerm, ...], Field("How evenly clusters are chosen.", max_items=8)
    ] = ()


class PlacementToleration(Value):
    """Which taint of a managed cluster a placement tolerates."""

    key: Annotated[
        str, Field("The taint key; empty with Exists tolerates all.", max_length=316, pattern=_KEY_PATTERN)
    ] = ""
    operator: Annotated[str, Field("Exists, or Equal which also compares values.", default="Equal")] = ""
    value: Annotated[str, Field("The taint value.", max_length=1024)] = ""
    effect: Annotated[str, Field("The taint effect; empty tolerates all.", enum=TAINT_EFFECTS)] = ""
    toleration_seconds: Annotated[Int64 | None, Field("How long after the taint appeared it is tolerated.")] = None


class DecisionGroup(Value):
    group_name: Annotated[
        str,
        Field("The name of the group.", required=True, pattern="^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"),
    ] = always("")
    group_cluster_selector: Annotated[
        GroupClusterSelector, Field("Which chosen clusters belong to the group.", required=True)
    ] = always(GroupClusterSelector())


class GroupStrategy(Value):
    decision_groups: Annotated[tuple[DecisionGroup, ...], Field("Named groups, in order.")] = ()
    clusters_per_decision_group: Annotated[
        IntOrString,
        Field(
            "How many clusters a group has at most, as number or percent.", default="100%", pattern=_NUMBER_OR_PERCENT
        ),
    ] = "100%"


class DecisionStrategy(Value):
    group_strategy: Annotated[GroupStrategy, Field("How decisions are grouped.")] = GroupStrategy()


class PlacementQuestion(Value):
    """What every version of a placement asks, the ranking aside."""

    cluster_sets: Annotated[tuple[str, ...], Field("Only clusters of these sets; empty means all bound sets.")] = ()
    number_of_clusters: Annotated[Int32 | None, Field("How many clusters are wanted; absent means all.")] = None
    predicates: Annotated[
        tuple[ClusterPredicate, ...], Field("A cluster may be chosen when any of these lets it through.")
    ] = ()
    spread_policy: Annotated[SpreadPolicy, Field("How evenly clusters are chosen.")] = SpreadPolicy()
    tolerations: Annotated[tuple[PlacementToleration, ...], Field("Which taints are tolerated.")] = ()
    decision_strategy: Annotated[DecisionStrategy, Field("How decisions are grouped.")] = DecisionStrategy()
    sort_by: Annotated[
        str, Field("How decisions are ordered.", default="ClusterName", enum=("ClusterName", "Score"))
    ] = "ClusterName"
    score_rate_limit: Annotated[
        str, Field("How often scores may change the answer.", default="1m", pattern="^[0-9]+[hms]$")
    ] = "1m"


class PlacementSpec(PlacementQuestion):
    prioritizer_policy: Annotated[PrioritizerPolicy, Field("How clusters are ranked.")] = PrioritizerPolicy()


class DecisionGroupStatus(Value):
    decision_group_index: Annotated[Int32, Field("The number of the group, from 0.", required=True)] = always(0)
    decision_group_name: Annotated[str, Field("Its name, if it has one.")] = ""
    decisions: Annotated[tuple[str, ...], Field("The PlacementDecisions of the group.")] = ()
    clusters_count: Annotated[Int32, Field("How many clusters it has.", default=0)] = msgspec.field(
        default_factory=lambda: 0, name="clusterCount"
    )


class PlacementStatus(Value):
    number_of_selected_clusters: Annotated[Int32, Field("How many clusters were chosen.")] = always(0)
    decision_groups: Annotated[tuple[DecisionGroupStatus, ...], Field("The groups of decisions.")] = ()
    conditions: Conditions = ()
    last_score_update_time: Annotated[datetime | None, Field("When scores last changed the answer.")] = None


class ScoreCoordinateV1Alpha1(Value):
    """Which score is meant; both spellings of the built-in ones are read."""

    type: Annotated[
        str,
        Field("A score of ours, or one that an add-on writes.", enum=("BuildIn", "BuiltIn", "AddOn", "")),
    ] = ""
    build_in: Annotated[str, Field("Which one of ours, in the first spelling.")] = ""
    built_in: Annotated[str, Field("Which one of ours.")] = ""
    add_on: Annotated[AddOnScore | None, Field("Where the add-on's score is found.")] = None


class PrioritizerConfigV1Alpha1(Value):
    name: Annotated[str, Field("Which score of ours, where there is no coordinate.")] = ""
    score_coordinate: Annotated[ScoreCoordinateV1Alpha1 | None, Field("The score.")] = None
    weight: Annotated[
        Int32 | None,
        Field("How much it counts; below zero turns it round, zero leaves it out.", default=1, minimum=-10, maximum=10),
    ] = None


class PrioritizerPolicyV1Alpha1(Value):
    mode: Annotated[
        str,
        Field("Additive keeps the default scores beside those given; Exact uses only those given.", default="Additive"),
    ] = ""
    configurations: Annotated[tuple[PrioritizerConfigV1Alpha1, ...], Field("The scores and what they weigh.")] = ()


class PlacementSpecV1Alpha1(PlacementQuestion):
    prioritizer_policy: Annotated[PrioritizerPolicyV1Alpha1, Field("How clusters are ranked.")] = (
        PrioritizerPolicyV1Alpha1()
    )


class PlacementV1Alpha1(Object):
    """A placement as document 003 writes it."""

    spec: Annotated[PlacementSpecV1Alpha1, Field("Which clusters are wanted.", required=True)] = always(
        PlacementSpecV1Alpha1()
    )
    status: Annotated[PlacementStatus, Field("How many were found.")] = PlacementStatus()


def _config_from_v1alpha1(config: Raw) -> Raw:
    coordinate = dict(mapping(config.get("scoreCoordinate")))
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
    name = at(config, "scoreCoordinate", "builtIn")
    return {"name": name, **config} if name else config


def _placement_from_v1alpha1(placement: Raw) -> Raw:
    return change_items(placement, ("spec", "prioritizerPolicy", "configurations"), _config_from_v1alpha1)


def _placement_to_v1alpha1(placement: Raw) -> Raw:
    return change_items(placement, ("spec", "prioritizerPolicy", "configurations"), _config_to_v1alpha1)


@kind(
    name="Placement",
    group=CLUSTER_GROUP,
    version="v1beta1",
    other_versions={
        "v1alpha1": OtherVersion(PlacementV1Alpha1, _placement_from_v1alpha1, _placement_to_v1alpha1, alike=True)
    },
    plural="placements",
    spelling=(_placement_from_v1alpha1,),
    status=True,
    columns=(
        Column("Succeeded", '.status.conditions[?(@.type=="PlacementSatisfied")].status'),
        Column("Reason", '.status.conditions[?(@.type=="PlacementSatisfied")].reason'),
        Column("SelectedClusters", ".status.numberOfSelectedClusters", "integer"),
    ),
    text="A question for clusters; its decisions are the answer.",
)
class OcmPlacement(Object):
    spec: Annotated[PlacementSpec, Field("Which clusters are wanted.", required=True)] = always(PlacementSpec())
    status: Annotated[PlacementStatus, Field("How many were found.")] = PlacementStatus()


class ClusterDecision(Value):
    cluster_name: Annotated[str, Field("The cluster.", required=True)] = always("")
    reason: Annotated[str, Field("Why this one.", required=True)] = always("")
    score: Annotated[Int64 | None, Field("Its total score.")] = None


class PlacementDecisionStatus(Value):
    decisions: Annotated[tuple[ClusterDecision, ...], Field("The clusters.", required=True)] = always(())


@kind(
    group=CLUSTER_GROUP,
    version="v1beta1",
    other_versions={"v1alpha1": OtherVersion(alike=True)},
    plural="placementdecisions",
    status=True,
    text="Clusters that a Placement was answered with.",
)
class PlacementDecision(Object):
    status: Annotated[PlacementDecisionStatus | None, Field("The clusters.")] = None


class Score(Value):
    name: Annotated[str, Field("The name of the score.", required=True)] = always("")
    value: Annotated[Int32, Field("The score.", required=True, minimum=-100, maximum=100)] = always(0)


class AddOnPlacementScoreStatus(Value):
    conditions: Conditions = ()
    scores: Annotated[tuple[Score, ...], Field("The scores.", list_type="map", map_keys=("name",))] = ()
    valid_until: Annotated[datetime | None, Field("Until when they count; absent means for ever.")] = None


@kind(
    group=CLUSTER_GROUP,
    version="v1alpha1",
    plural="addonplacementscores",
    status=True,
    text="Scores of one cluster, written from outside; its namespace says which cluster.",
)
class AddOnPlacementScore(Object):
    status: Annotated[AddOnPlacementScoreStatus, Field("The scores.")] = AddOnPlacementScoreStatus()


class ClusterClaimSpec(Value):
    value: Annotated[str, Field("What the cluster claims.", min_length=1, max_length=1024)] = ""


@kind(
    group=CLUSTER_GROUP,
    version="v1alpha1",
    plural="clusterclaims",
    namespaced=False,
    text="Something a cluster says about itself.",
)
class ClusterClaim(Object):
    spec: Annotated[ClusterClaimSpec, Field("What it says.")] = ClusterClaimSpec()


class ManifestsTemplate(Value):
    manifests: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True, embedded=True)], ...], Field("The objects to apply.")
    ] = ()


class OrphaningRule(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = always("")


class SelectivelyOrphan(Value):
    orphaning_rules: Annotated[tuple[OrphaningRule, ...], Field("The objects that stay.")] = ()


class DeleteOption(Value):
    propagation_policy: Annotated[
        str,
        Field(
            "What becomes of the objects when the work is deleted.",
            required=True,
            default="Foreground",
            enum=("Foreground", "Orphan", "SelectivelyOrphan"),
        ),
    ] = always("Foreground")
    selectively_orphans: Annotated[SelectivelyOrphan | None, Field("Which objects stay.")] = msgspec.field(
        default=None, name="selectivelyOrphans"
    )
    ttl_seconds_after_finished: Annotated[
        Int64 | None, Field("Delete the work so long after it is complete.", minimum=0)
    ] = None


class WorkResourceIdentifier(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = always("")
    name: Annotated[str, Field("Its name.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace.")] = ""


class JsonPath(Value):
    name: Annotated[str, Field("How the value is called.", required=True)] = always("")
    path: Annotated[str, Field("Where it is found in the object.", required=True)] = always("")
    version: Annotated[str, Field("Which version of the object is read.")] = ""


class FeedbackRule(Value):
    type: Annotated[
        str, Field("Well-known values, or those at given paths.", required=True, enum=("WellKnownStatus", "JSONPaths"))
    ] = always("")
    json_paths: Annotated[tuple[JsonPath, ...], Field("The paths.")] = ()


class IgnoreField(Value):
    condition: Annotated[
        str,
        Field(
            "When the fields are left alone.",
            required=True,
            default="OnSpokePresent",
            enum=("OnSpokePresent", "OnSpokeChange"),
        ),
    ] = always("OnSpokePresent")
    json_paths: Annotated[tuple[str, ...], Field("The fields, as JSON paths.")] = ()
    json_pointers: Annotated[tuple[str, ...], Field("The fields, as JSON pointers.")] = ()
    jq_path_expressions: Annotated[tuple[str, ...], Field("The fields, as jq paths.")] = ()


class ServerSideApplyConfig(Value):
    force: Annotated[bool, Field("Take fields over from other owners.")] = False
    field_manager: Annotated[
        str, Field("The name under which fields are owned.", default="work-agent", pattern="^work-agent")
    ] = ""
    ignore_fields: Annotated[tuple[IgnoreField, ...], Field("Fields that are left alone.")] = ()


class UpdateStrategy(Value):
    type: Annotated[
        str,
        Field(
            "How an object is brought up to date.",
            required=True,
            default="Update",
            enum=("Update", "CreateOnly", "ServerSideApply", "ReadOnly"),
        ),
    ] = always("Update")
    server_side_apply: Annotated[ServerSideApplyConfig | None, Field("How server-side apply is done.")] = None


class ConditionRule(Value):
    condition: Annotated[str, Field("The condition that the rule sets.", required=True)] = always("")
    type: Annotated[
        str, Field("A well-known rule, or expressions.", required=True, enum=("WellKnownConditions", "CEL"))
    ] = always("")
    cel_expressions: Annotated[tuple[str, ...], Field("Expressions about `object`, all of which must hold.")] = ()
    message: Annotated[str, Field("What the condition says.")] = ""
    message_expression: Annotated[str, Field("An expression that makes that message.")] = ""


class ManifestConfigOption(Value):
    resource_identifier: Annotated[WorkResourceIdentifier, Field("Which object.", required=True)] = always(
        WorkResourceIdentifier()
    )
    feedback_rules: Annotated[tuple[FeedbackRule, ...], Field("Which values are reported.")] = ()
    update_strategy: Annotated[UpdateStrategy | None, Field("How it is brought up to date.")] = None
    condition_rules: Annotated[
        tuple[ConditionRule, ...],
        Field("Conditions computed from the object.", list_type="map", map_keys=("condition",)),
    ] = ()
    feedback_scrape_type: Annotated[str, Field("How values are found out.", default="Poll", enum=("Poll", "Watch"))] = (
        ""
    )


class ExecutorServiceAccount(Value):
    namespace: Annotated[str, Field("The namespace of the account.", required=True)] = always("")
    name: Annotated[str, Field("The name of the account.", required=True)] = always("")


class ExecutorSubject(Value):
    type: Annotated[str, Field("What the executor is.", required=True, enum=("ServiceAccount",))] = always("")
    service_account: Annotated[ExecutorServiceAccount | None, Field("The account.")] = None


class WorkExecutor(Value):
    subject: Annotated[ExecutorSubject, Field("Who applies the objects.", required=True)] = always(ExecutorSubject())


class ManifestWorkSpec(Value):
    workload: Annotated[ManifestsTemplate, Field("What the cluster shall have.")] = ManifestsTemplate()
    delete_option: Annotated[DeleteOption | None, Field("What deletion means.")] = None
    manifest_configs: Annotated[tuple[ManifestConfigOption, ...], Field("How single objects are treated.")] = ()
    executor: Annotated[WorkExecutor | None, Field("On whose behalf objects are applied.")] = None


class ManifestResourceMeta(Value):
    ordinal: Annotated[Int32, Field("Which of the work's objects, counted from 0.", required=True)] = always(0)
    group: Annotated[str, Field("Its group.")] = ""
    version: Annotated[str, Field("Its version.")] = ""
    kind: Annotated[str, Field("Its kind.")] = ""
    resource: Annotated[str, Field("Its plural name.")] = ""
    name: Annotated[str, Field("Its name.")] = ""
    namespace: Annotated[str, Field("Its namespace.")] = ""


class FieldValue(Value):
    type: Annotated[
        str, Field("Which kind of value.", required=True, enum=("Integer", "String", "Boolean", "JsonRaw"))
    ] = always("")
    integer: Annotated[Int64 | None, Field("A number.")] = None
    string: Annotated[str | None, Field("A text.")] = None
    boolean: Annotated[bool | None, Field("Yes or no.")] = None
    json_raw: Annotated[str | None, Field("Anything, as JSON text.", max_length=1024)] = None


class FeedbackValue(Value):
    name: Annotated[str, Field("How the value is called.", required=True)] = always("")
    field_value: Annotated[FieldValue, Field("The value.", required=True)] = always(FieldValue())


class StatusFeedback(Value):
    values: Annotated[tuple[FeedbackValue, ...], Field("The values.", list_type="map", map_keys=("name",))] = ()


class ManifestCondition(Value):
    resource_meta: Annotated[ManifestResourceMeta, Field("Which object.", required=True)] = always(
        ManifestResourceMeta()
    )
    status_feedback: Annotated[StatusFeedback, Field("The values that were asked for.")] = StatusFeedback()
    conditions: Annotated[tuple[Condition, ...], Field("What was observed of it.", required=True)] = always(())


class ManifestResourceStatus(Value):
    manifests: Annotated[tuple[ManifestCondition, ...], Field("Object by object.")] = ()


class ManifestWorkStatus(Value):
    conditions: Conditions = ()
    resource_status: Annotated[ManifestResourceStatus, Field("What the cluster says.")] = ManifestResourceStatus()


@kind(
    group=WORK_GROUP,
    version="v1",
    plural="manifestworks",
    status=True,
    text="Objects that one cluster shall have; its namespace says which cluster.",
)
class ManifestWork(Object):
    spec: Annotated[ManifestWorkSpec, Field("What the cluster shall have.")] = ManifestWorkSpec()
    status: Annotated[ManifestWorkStatus, Field("How far it has come.")] = ManifestWorkStatus()


class MandatoryDecisionGroup(Value):
    group_name: Annotated[str, Field("The group by name.")] = ""
    group_index: Annotated[Int32 | None, Field("The group by number.")] = None


class RolloutPace(Value):
    """How fast and how carefully a change goes from cluster to cluster."""

    min_success_time: Annotated[str, Field("How long a success must last.", default="0")] = ""
    progress_deadline: Annotated[
        str, Field("How long to wait for a cluster; None is for ever.", default="None", pattern=_DURATION_PATTERN)
    ] = ""
    max_failures: Annotated[
        IntOrString,
        Field("How many clusters may fail, as number or percent.", default=0, pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$"),
    ] = 0


class RolloutAll(RolloutPace):
    pass


class RolloutProgressive(RolloutPace):
    mandatory_decision_groups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Groups that go first and may not fail.")
    ] = ()
    max_concurrency: Annotated[
        IntOrString | None,
        Field("How many clusters at once, as number or percent.", pattern=_NUMBER_OR_PERCENT),
    ] = None


class RolloutProgressivePerGroup(RolloutPace):
    mandatory_decision_groups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Groups that go first and may not fail.")
    ] = ()


class RolloutStrategy(Value):
    type: Annotated[
        str,
        Field(
            "All at once, some at a time, or group by group.",
            default="All",
            enum=("All", "Progressive", "ProgressivePerGroup"),
        ),
    ] = "All"
    all: Annotated[RolloutAll | None, Field("Details of All.")] = None
    progressive: Annotated[RolloutProgressive | None, Field("Details of Progressive.")] = None
    progressive_per_group: Annotated[RolloutProgressivePerGroup | None, Field("Details of ProgressivePerGroup.")] = None


class LocalPlacementReference(Value):
    name: Annotated[str, Field("A Placement of the same namespace.", required=True, min_length=1)] = always("")
    rollout_strategy: Annotated[
        RolloutStrategy,
        Field("How changes reach its clusters.", default={"type": "All", "all": {"progressDeadline": "None"}}),
    ] = RolloutStrategy()


class ManifestWorkReplicaSetSpec(Value):
    manifest_work_template: Annotated[ManifestWorkSpec, Field("What every cluster shall have.", required=True)] = (
        always(ManifestWorkSpec())
    )
    placement_refs: Annotated[
        tuple[LocalPlacementReference, ...],
        Field("Which placements say the clusters.", required=True, min_items=1, list_type="map", map_keys=("name",)),
    ] = always(())
    cascade_deletion_policy: Annotated[
        str,
        Field("Whether deletion waits for the works.", default="Background", enum=("Background", "Foreground")),
    ] = ""


class ManifestWorkReplicaSetSummary(Value):
    total: Annotated[int, Field("How many works there are.")] = always(0)
    applied: Annotated[int, Field("How many are applied.")] = always(0)
    available: Annotated[int, Field("How many are available.")] = always(0)
    progressing: Annotated[int, Field("How many are on their way.")] = always(0)
    degraded: Annotated[int, Field("How many are degraded.")] = always(0)
    desired_total: Annotated[int, Field("How many there shall be.")] = always(0)
    updated: Annotated[int, Field("How many have the present template.")] = always(0)


class PlacementSummary(Value):
    name: Annotated[str, Field("The placement.")] = ""
    available_decision_groups: Annotated[str, Field("How far its groups are, in words.")] = ""
    summary: Annotated[ManifestWorkReplicaSetSummary, Field("Its works, counted.")] = ManifestWorkReplicaSetSummary()


class ManifestWorkReplicaSetStatus(Value):
    conditions: Conditions = ()
    summary: Annotated[ManifestWorkReplicaSetSummary, Field("All works, counted.")] = ManifestWorkReplicaSetSummary()
    placement_summary: Annotated[tuple[PlacementSummary, ...], Field("Works by placement.")] = msgspec.field(
        default=(), name="placementSummary"
    )


@kind(
    group=WORK_GROUP,
    version="v1alpha1",
    plural="manifestworkreplicasets",
    short=("mwrs",),
    status=True,
    columns=(
        Column("Placement", '.status.conditions[?(@.type=="PlacementVerified")].reason'),
        Column("Found", '.status.conditions[?(@.type=="PlacementVerified")].status'),
        Column("ManifestWorks", '.status.conditions[?(@.type=="ManifestworkApplied")].reason'),
        Column("Applied", '.status.conditions[?(@.type=="ManifestworkApplied")].status'),
    ),
    text="One ManifestWork in every cluster that its placements decide for.",
)
class ManifestWorkReplicaSet(Object):
    spec: Annotated[ManifestWorkReplicaSetSpec, Field("What goes to which placements.", required=True)] = always(
        ManifestWorkReplicaSetSpec()
    )
    status: Annotated[ManifestWorkReplicaSetStatus, Field("How far it has come.")] = ManifestWorkReplicaSetStatus()


class AppliedManifestWorkSpec(Value):
    hub_hash: Annotated[str, Field("Which hub the work came from.", required=True)] = always("")
    agent_id: Annotated[str, Field("Which agent applied it.")] = msgspec.field(default="", name="agentID")
    manifest_work_name: Annotated[str, Field("The name of the ManifestWork.", required=True)] = always("")


class AppliedResource(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = always("")
    version: Annotated[str, Field("The version it was applied in.", required=True)] = always("")
    name: Annotated[str, Field("Its name.", required=True)] = always("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    uid: Annotated[str, Field("Its uid.")] = ""


class AppliedManifestWorkStatus(Value):
    applied_resources: Annotated[tuple[AppliedResource, ...], Field("The objects that were applied.")] = ()
    eviction_start_time: Annotated[datetime | None, Field("When the ManifestWork was first missed.")] = None


@kind(
    group=WORK_GROUP,
    version="v1",
    plural="appliedmanifestworks",
    namespaced=False,
    status=True,
    text="What a cluster has of a ManifestWork.",
)
class AppliedManifestWork(Object):
    spec: Annotated[AppliedManifestWorkSpec, Field("Which work.")] = AppliedManifestWorkSpec()
    status: Annotated[AppliedManifestWorkStatus, Field("Which objects.")] = AppliedManifestWorkStatus()
