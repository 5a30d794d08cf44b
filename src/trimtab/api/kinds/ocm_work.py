"""Kinds of Open Cluster Management that deploy objects: ManifestWork, ManifestWorkReplicaSet, AppliedManifestWork."""

from datetime import datetime
from typing import Annotated

import msgspec

from trimtab.api.admission.ocm_work import (
    check_manifest_work,
    check_manifest_work_set,
    manifest_work_requirements,
)
from trimtab.api.kind import Column, kind
from trimtab.api.kinds.ocm_clusters import Conditions
from trimtab.api.kinds.ocm_placement import NUMBER_OR_PERCENT
from trimtab.api.value import (
    Condition,
    Field,
    Int32,
    Int64,
    IntOrString,
    Object,
    Raw,
    Value,
    never_omit,
)

WORK_GROUP = "work.open-cluster-management.io"
_DURATION_PATTERN = "^(([0-9])+[h|m|s])|None$"


class ManifestsTemplate(Value):
    manifests: Annotated[
        tuple[Annotated[Raw, Field(preserve_unknown=True, embedded=True)], ...], Field("The objects to apply.")
    ] = ()


class OrphaningRule(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")


class SelectivelyOrphan(Value):
    orphaning_rules: Annotated[tuple[OrphaningRule, ...], Field("The objects to keep.")] = ()


class DeleteOption(Value):
    propagation_policy: Annotated[
        str,
        Field(
            "What happens to the objects when the work is deleted.",
            required=True,
            default="Foreground",
            enum=("Foreground", "Orphan", "SelectivelyOrphan"),
        ),
    ] = never_omit("Foreground")
    selectively_orphans: Annotated[SelectivelyOrphan | None, Field("The objects to keep.")] = msgspec.field(
        default=None, name="selectivelyOrphans"
    )
    ttl_seconds_after_finished: Annotated[
        Int64 | None, Field("Delete the work this long after it completed.", minimum=0)
    ] = None


class WorkResourceIdentifier(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = never_omit("")
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace.")] = ""


class JsonPath(Value):
    name: Annotated[str, Field("The name of the value.", required=True)] = never_omit("")
    path: Annotated[str, Field("The JSON path of the value in the object.", required=True)] = never_omit("")
    version: Annotated[str, Field("Which version of the object is read.")] = ""


class FeedbackRule(Value):
    type: Annotated[
        str, Field("Well-known values, or values at JSON paths.", required=True, enum=("WellKnownStatus", "JSONPaths"))
    ] = never_omit("")
    json_paths: Annotated[tuple[JsonPath, ...], Field("The paths.")] = ()


class IgnoreField(Value):
    condition: Annotated[
        str,
        Field(
            "When the fields are ignored.",
            required=True,
            default="OnSpokePresent",
            enum=("OnSpokePresent", "OnSpokeChange"),
        ),
    ] = never_omit("OnSpokePresent")
    json_paths: Annotated[tuple[str, ...], Field("The fields, as JSON paths.")] = ()
    json_pointers: Annotated[tuple[str, ...], Field("The fields, as JSON pointers.")] = ()
    jq_path_expressions: Annotated[tuple[str, ...], Field("The fields, as jq paths.")] = ()


class ServerSideApplyConfig(Value):
    force: Annotated[bool, Field("Take over fields of other field managers.")] = False
    field_manager: Annotated[str, Field("The field manager.", default="work-agent", pattern="^work-agent")] = ""
    ignore_fields: Annotated[tuple[IgnoreField, ...], Field("Fields to ignore.")] = ()


class UpdateStrategy(Value):
    type: Annotated[
        str,
        Field(
            "How an object is updated.",
            required=True,
            default="Update",
            enum=("Update", "CreateOnly", "ServerSideApply", "ReadOnly"),
        ),
    ] = never_omit("Update")
    server_side_apply: Annotated[ServerSideApplyConfig | None, Field("The settings of server-side apply.")] = None


class ManifestConditionRule(Value):
    condition: Annotated[str, Field("The condition that the rule sets.", required=True)] = never_omit("")
    type: Annotated[
        str, Field("A well-known rule, or CEL expressions.", required=True, enum=("WellKnownConditions", "CEL"))
    ] = never_omit("")
    cel_expressions: Annotated[tuple[str, ...], Field("CEL expressions over `object`; all must be true.")] = ()
    message: Annotated[str, Field("The message of the condition.")] = ""
    message_expression: Annotated[str, Field("A CEL expression that returns the message.")] = ""


class ManifestConfigOption(Value):
    resource_identifier: Annotated[WorkResourceIdentifier, Field("The object.", required=True)] = never_omit(
        WorkResourceIdentifier()
    )
    feedback_rules: Annotated[tuple[FeedbackRule, ...], Field("The values to report.")] = ()
    update_strategy: Annotated[UpdateStrategy | None, Field("How the object is updated.")] = None
    condition_rules: Annotated[
        tuple[ManifestConditionRule, ...],
        Field("Conditions computed from the object.", list_type="map", map_keys=("condition",)),
    ] = ()
    feedback_scrape_type: Annotated[str, Field("How values are collected.", default="Poll", enum=("Poll", "Watch"))] = (
        ""
    )


class ExecutorServiceAccount(Value):
    namespace: Annotated[str, Field("The namespace of the account.", required=True)] = never_omit("")
    name: Annotated[str, Field("The name of the account.", required=True)] = never_omit("")


class ExecutorSubject(Value):
    type: Annotated[str, Field("The type of the executor.", required=True, enum=("ServiceAccount",))] = never_omit("")
    service_account: Annotated[ExecutorServiceAccount | None, Field("The account.")] = None


class WorkExecutor(Value):
    subject: Annotated[ExecutorSubject, Field("The subject that applies the objects.", required=True)] = never_omit(
        ExecutorSubject()
    )


class ManifestWorkSpec(Value):
    workload: Annotated[ManifestsTemplate, Field("The objects to apply in the cluster.")] = ManifestsTemplate()
    delete_option: Annotated[DeleteOption | None, Field("What happens on deletion.")] = None
    manifest_configs: Annotated[tuple[ManifestConfigOption, ...], Field("Options of single objects.")] = ()
    executor: Annotated[WorkExecutor | None, Field("The identity that applies the objects.")] = None


class ManifestResourceMeta(Value):
    ordinal: Annotated[Int32, Field("The index of the object in the work, from 0.", required=True)] = never_omit(0)
    group: Annotated[str, Field("Its group.")] = ""
    version: Annotated[str, Field("Its version.")] = ""
    kind: Annotated[str, Field("Its kind.")] = ""
    resource: Annotated[str, Field("Its plural name.")] = ""
    name: Annotated[str, Field("Its name.")] = ""
    namespace: Annotated[str, Field("Its namespace.")] = ""


class FieldValue(Value):
    type: Annotated[
        str, Field("The type of the value.", required=True, enum=("Integer", "String", "Boolean", "JsonRaw"))
    ] = never_omit("")
    integer: Annotated[Int64 | None, Field("An integer value.")] = None
    string: Annotated[str | None, Field("A string value.")] = None
    boolean: Annotated[bool | None, Field("A boolean value.")] = None
    json_raw: Annotated[str | None, Field("Any value, as JSON text.", max_length=1024)] = None


class FeedbackValue(Value):
    name: Annotated[str, Field("The name of the value.", required=True)] = never_omit("")
    field_value: Annotated[FieldValue, Field("The value.", required=True)] = never_omit(FieldValue())


class StatusFeedback(Value):
    values: Annotated[tuple[FeedbackValue, ...], Field("The values.", list_type="map", map_keys=("name",))] = ()


class ManifestCondition(Value):
    resource_meta: Annotated[ManifestResourceMeta, Field("The object.", required=True)] = never_omit(
        ManifestResourceMeta()
    )
    status_feedback: Annotated[StatusFeedback, Field("The values of the feedback rules.")] = StatusFeedback()
    conditions: Annotated[tuple[Condition, ...], Field("Conditions of the object.", required=True)] = never_omit(())


class ManifestResourceStatus(Value):
    manifests: Annotated[tuple[ManifestCondition, ...], Field("The status of each object.")] = ()


class ManifestWorkStatus(Value):
    conditions: Conditions = ()
    resource_status: Annotated[ManifestResourceStatus, Field("The status of the objects.")] = ManifestResourceStatus()


@kind(
    group=WORK_GROUP,
    version="v1",
    plural="manifestworks",
    status=True,
    admission_validators=(check_manifest_work,),
    admission_requirements=(manifest_work_requirements,),
    text="Objects to apply in one cluster; the namespace determines the cluster.",
)
class ManifestWork(Object):
    spec: Annotated[ManifestWorkSpec, Field("The objects to apply in the cluster.")] = ManifestWorkSpec()
    status: Annotated[ManifestWorkStatus, Field("The progress.")] = ManifestWorkStatus()


class MandatoryDecisionGroup(Value):
    group_name: Annotated[str, Field("The group by name.")] = ""
    group_index: Annotated[Int32 | None, Field("The group by number.")] = None


class RolloutOptions(Value):
    """How fast a change is rolled out over the clusters, and how many failures it tolerates."""

    min_success_time: Annotated[str, Field("How long a cluster must stay successful.", default="0")] = ""
    progress_deadline: Annotated[
        str, Field("How long to wait for a cluster; None means forever.", default="None", pattern=_DURATION_PATTERN)
    ] = ""
    max_failures: Annotated[
        IntOrString,
        Field(
            "The maximum number of failed clusters, as number or percent.",
            default=0,
            pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$",
        ),
    ] = 0


class RolloutAll(RolloutOptions):
    pass


class RolloutProgressive(RolloutOptions):
    mandatory_decision_groups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Decision groups that are rolled out first and may not fail.")
    ] = ()
    max_concurrency: Annotated[
        IntOrString | None,
        Field("The maximum number of clusters at the same time, as number or percent.", pattern=NUMBER_OR_PERCENT),
    ] = None


class RolloutProgressivePerGroup(RolloutOptions):
    mandatory_decision_groups: Annotated[
        tuple[MandatoryDecisionGroup, ...], Field("Decision groups that are rolled out first and may not fail.")
    ] = ()


class RolloutStrategy(Value):
    type: Annotated[
        str,
        Field(
            "All clusters at once, some at a time, or per decision group.",
            default="All",
            enum=("All", "Progressive", "ProgressivePerGroup"),
        ),
    ] = "All"
    all: Annotated[RolloutAll | None, Field("Options of All.")] = None
    progressive: Annotated[RolloutProgressive | None, Field("Options of Progressive.")] = None
    progressive_per_group: Annotated[RolloutProgressivePerGroup | None, Field("Options of ProgressivePerGroup.")] = None


class LocalPlacementReference(Value):
    name: Annotated[str, Field("A Placement of the same namespace.", required=True, min_length=1)] = never_omit("")
    rollout_strategy: Annotated[
        RolloutStrategy,
        Field(
            "How changes are rolled out to its clusters.", default={"type": "All", "all": {"progressDeadline": "None"}}
        ),
    ] = RolloutStrategy()


class ManifestWorkReplicaSetSpec(Value):
    manifest_work_template: Annotated[ManifestWorkSpec, Field("The ManifestWork of every cluster.")] = never_omit(
        ManifestWorkSpec()
    )
    placement_refs: Annotated[
        tuple[LocalPlacementReference, ...],
        Field(
            "The Placements that select the clusters.", required=True, min_items=1, list_type="map", map_keys=("name",)
        ),
    ] = never_omit(())
    cascade_deletion_policy: Annotated[
        str,
        Field("Whether deletion waits for the works.", default="Background", enum=("Background", "Foreground")),
    ] = ""


class ManifestWorkReplicaSetSummary(Value):
    total: Annotated[int, Field("The number of works.")] = never_omit(0)
    applied: Annotated[int, Field("The number of applied works.")] = never_omit(0)
    available: Annotated[int, Field("The number of available works.")] = never_omit(0)
    progressing: Annotated[int, Field("The number of progressing works.")] = never_omit(0)
    degraded: Annotated[int, Field("The number of degraded works.")] = never_omit(0)
    desired_total: Annotated[int, Field("The desired number of works.")] = never_omit(0)
    updated: Annotated[int, Field("The number of works with the current template.")] = never_omit(0)


class PlacementSummary(Value):
    name: Annotated[str, Field("The placement.")] = ""
    available_decision_groups: Annotated[str, Field("The progress of its decision groups.")] = ""
    summary: Annotated[ManifestWorkReplicaSetSummary, Field("The number of its works by state.")] = (
        ManifestWorkReplicaSetSummary()
    )


class ManifestWorkReplicaSetStatus(Value):
    conditions: Conditions = ()
    summary: Annotated[ManifestWorkReplicaSetSummary, Field("The number of all works by state.")] = (
        ManifestWorkReplicaSetSummary()
    )
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
    admission_validators=(check_manifest_work_set,),
    text="Creates a ManifestWork in every cluster that its Placements select.",
)
class ManifestWorkReplicaSet(Object):
    spec: Annotated[ManifestWorkReplicaSetSpec, Field("The template and the Placements.", required=True)] = never_omit(
        ManifestWorkReplicaSetSpec()
    )
    status: Annotated[ManifestWorkReplicaSetStatus, Field("The progress.")] = ManifestWorkReplicaSetStatus()


class AppliedManifestWorkSpec(Value):
    hub_hash: Annotated[str, Field("The hub that the work came from.", required=True)] = never_omit("")
    agent_id: Annotated[str, Field("The agent that applied it.")] = msgspec.field(default="", name="agentID")
    manifest_work_name: Annotated[str, Field("The name of the ManifestWork.", required=True)] = never_omit("")


class AppliedResource(Value):
    group: Annotated[str, Field("The group of the object.")] = ""
    resource: Annotated[str, Field("The plural name of its kind.", required=True)] = never_omit("")
    version: Annotated[str, Field("The version in which it was applied.", required=True)] = never_omit("")
    name: Annotated[str, Field("Its name.", required=True)] = never_omit("")
    namespace: Annotated[str, Field("Its namespace.")] = ""
    uid: Annotated[str, Field("Its uid.")] = ""


class AppliedManifestWorkStatus(Value):
    applied_resources: Annotated[tuple[AppliedResource, ...], Field("The objects that were applied.")] = ()
    eviction_start_time: Annotated[datetime | None, Field("When the ManifestWork was first found missing.")] = None


@kind(
    group=WORK_GROUP,
    version="v1",
    plural="appliedmanifestworks",
    namespaced=False,
    status=True,
    text="The objects of a ManifestWork that are applied in a cluster.",
)
class AppliedManifestWork(Object):
    spec: Annotated[AppliedManifestWorkSpec, Field("The ManifestWork.")] = AppliedManifestWorkSpec()
    status: Annotated[AppliedManifestWorkStatus, Field("The applied objects.")] = AppliedManifestWorkStatus()
