"""Creates a ManifestWork for every cluster that the Placements of a ManifestWorkReplicaSet selected."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementDecision
from trimtab.api.kinds.ocm_work import (
    WORK_GROUP,
    LocalPlacementReference,
    ManifestWork,
    ManifestWorkReplicaSet,
    ManifestWorkReplicaSetSummary,
    ManifestWorkSpec,
    PlacementSummary,
)
from trimtab.api.names import label_value_faults
from trimtab.api.profile import Profile
from trimtab.api.value import Condition, Key, Meta
from trimtab.controllers.clusters.departure import is_drained, is_forced_out
from trimtab.controllers.conditions import find_condition, is_condition_true, with_condition
from trimtab.controllers.contract import Delete, Effect, RequeueAfter, Trigger, View, controller
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.ocm.workset_budgets import (
    SET_LABEL,
    covered_sets,
    is_serving,
    set_label_value,
    sets_of,
    works_of,
)
from trimtab.controllers.ocm.workset_eviction import (
    LEAVING_SINCE_ANNOTATION,
    WorkRemovals,
    is_emptied,
    plan_removals,
    without_leaving_since,
)
from trimtab.decide.ocm.rollout import (
    FAILED,
    PROGRESSING,
    SUCCEEDED,
    TO_APPLY,
    RolloutGroup,
    RolloutPlan,
    RolloutState,
    plan_rollout,
    resolve_share,
    rollout_groups,
)
from trimtab.decide.ocm.snapshot import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from trimtab.interpret.names import work_name

PLACEMENT_NAME_LABEL = f"{WORK_GROUP}/placementname"
FINALIZER = f"{WORK_GROUP}/manifest-work-cleanup"
AS_EXPECTED, NOT_AS_EXPECTED, DECISION_EMPTY = "AsExpected", "NotAsExpected", "PlacementDecisionEmpty"
NAMESPACE_RETRY_SECONDS = 30.0


def sets_of_decision(old: PlacementDecision | None, new: PlacementDecision | None, view: View) -> Iterable[Key]:
    decision = new or old or PlacementDecision()
    placement = decision.metadata.labels.get(PLACEMENT_LABEL)
    for subject in view.all(ManifestWorkReplicaSet, decision.namespace):
        if any(ref.name == placement for ref in subject.spec.placement_refs):
            yield key_of(subject)


def sets_of_placement(old: OcmPlacement | None, new: OcmPlacement | None, view: View) -> Iterable[Key]:
    """The sets of a Placement that is created or deleted."""
    if old is None or new is None or (old.metadata.deletion_timestamp, new.metadata.deletion_timestamp) != (None, None):
        placement = new or old or OcmPlacement()
        for subject in view.all(ManifestWorkReplicaSet, placement.namespace):
            if any(ref.name == placement.name for ref in subject.spec.placement_refs):
                yield key_of(subject)


def set_of_work(old: ManifestWork | None, new: ManifestWork | None, view: View) -> Iterable[Key]:
    yield from map(key_of, sets_of(new or old or ManifestWork(), view))


def sets_in_emptied_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """The sets with a work in a cluster whose drain began or ended."""
    states = [(is_drained(one, view.profile), is_forced_out(one, view.profile)) for one in (old, new)]
    if new is not None and states[0] != states[1]:
        for work in view.all(ManifestWork, new.name):
            yield from map(key_of, sets_of(work, view))


def sets_of_budget(old: DisruptionBudget | None, new: DisruptionBudget | None, view: View) -> Iterable[Key]:
    """The sets that wait for a budget that has changed."""
    for budget in (old, new):
        for subject in covered_sets(budget, view) if budget is not None else ():
            if is_condition_true(subject.status.conditions, "Stalled"):
                yield key_of(subject)


def sets_without_namespaces(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The sets that could not create a work because the namespace of a cluster was missing."""
    if old is None:
        for subject in view.all(ManifestWorkReplicaSet):
            verified = find_condition(subject.status.conditions, "PlacementVerified")
            if verified is not None and verified.reason == NOT_AS_EXPECTED:
                yield key_of(subject)


class PlacementRollout(NamedTuple):
    """The rollout to the clusters of one placement of the set."""

    ref: LocalPlacementReference
    template: ManifestWorkSpec
    batches: list[RolloutGroup]
    is_decided: bool
    """Whether the Placement exists and has decisions. A Placement that is gone selects nothing and removes nothing."""
    works: dict[str, ManifestWork]
    plan: RolloutPlan

    @property
    def clusters(self) -> list[str]:
        return [cluster for batch in self.batches for cluster in batch.clusters]


@controller(
    ManifestWorkReplicaSet,
    writes=[
        "status",
        "metadata.finalizers",
        "ManifestWork",
        "DisruptionBudget.status.inFlight",
        "DisruptionBudget.status.rate",
        "Move",
    ],
    triggers=[
        Trigger(OcmPlacement, sets_of_placement),
        Trigger(PlacementDecision, sets_of_decision),
        Trigger(ManifestWork, set_of_work),
        Trigger(Cluster, sets_in_emptied_cluster),
        Trigger(Namespace, sets_without_namespaces),
        Trigger(DisruptionBudget, sets_of_budget),
    ],
)
def manifestwork_replicaset(subject: ManifestWorkReplicaSet, view: View) -> Iterator[Effect]:
    works = works_of(subject, view)
    if subject.metadata.deletion_timestamp is not None:
        yield from remove_replicaset(subject, works)
        return
    if FINALIZER not in subject.metadata.finalizers:
        metadata = subject.metadata.but(finalizers=(*subject.metadata.finalizers, FINALIZER))
        yield subject.but(metadata=metadata)
        return
    label = f"{subject.namespace}.{subject.name}"
    if not view.profile.hash_long_replicaset_names and (faults := label_value_faults(label)):
        yield from status_update(subject, [invalid_label_condition(label, faults)], [], view)
        return
    rollouts = [rollout_of(subject, ref, works, view) for ref in subject.spec.placement_refs]
    wanted = {cluster for one in rollouts for cluster in one.clusters if not is_emptied(cluster, view)}
    missing = missing_namespaces(rollouts, view)
    for one in rollouts:
        for cluster in one.plan.apply:
            if cluster not in missing and (cluster in one.works or not is_emptied(cluster, view)):
                yield work_for(subject, one, cluster)
    applying = {cluster for one in rollouts for cluster in one.plan.apply}
    for work in works:
        if work.namespace in wanted - applying and LEAVING_SINCE_ANNOTATION in work.metadata.annotations:
            yield without_leaving_since(work)
    undecided = {one.ref.name for one in rollouts if not one.is_decided}
    unwanted = [
        work
        for work in works
        if work.namespace not in wanted and work.metadata.labels.get(PLACEMENT_NAME_LABEL) not in undecided
    ]
    removals = plan_removals(
        subject, unwanted, pending_clusters(rollouts, view), max_concurrent_removals(subject, len(works)), view
    )
    yield from removals.effects
    conditions = rollout_conditions(subject, rollouts, removals, missing, view.profile)
    yield from status_update(subject, conditions, rollouts, view)
    ends = [one.plan.recheck_at for one in rollouts if one.plan.recheck_at is not None]
    waits = [max(0.0, (end - view.now).total_seconds()) + 0.001 for end in ends]
    waits += [seconds for seconds in [removals.seconds_until_retry(view.now)] if seconds is not None]
    waits += [NAMESPACE_RETRY_SECONDS] if missing else []
    if waits:
        yield RequeueAfter(min(waits))


def missing_namespaces(rollouts: list[PlacementRollout], view: View) -> list[str]:
    """Clusters without a namespace, if that made the last attempt fail: the others get their works first."""
    if view.fault is None or view.fault.code != HTTPStatus.NOT_FOUND:
        return []
    clusters = {cluster for one in rollouts for cluster in one.plan.apply}
    return sorted(cluster for cluster in clusters if view.get(Namespace, "", cluster) is None)


def pending_clusters(rollouts: list[PlacementRollout], view: View) -> list[str]:
    """Selected clusters in which the work does not serve yet."""
    return sorted(
        {
            name
            for one in rollouts
            for name in one.clusters
            if not is_applied_and_serving(one.works.get(name)) and not is_emptied(name, view)
        }
    )


def is_applied_and_serving(work: ManifestWork | None) -> bool:
    return work is not None and is_observed(work) and is_serving(work)


def max_concurrent_removals(subject: ManifestWorkReplicaSet, total: int) -> int:
    """How many works may be removed at once: as many as may be updated at once."""
    strategies = [ref.rollout_strategy.progressive for ref in subject.spec.placement_refs]
    limits = [resolve_share(one.max_concurrency, total) for one in strategies if one is not None]
    return min([number for number in limits if number is not None], default=total)


def remove_replicaset(subject: ManifestWorkReplicaSet, works: list[ManifestWork]) -> Iterator[Effect]:
    for work in works:
        if work.metadata.deletion_timestamp is None:
            yield Delete(work)
    waits = subject.spec.cascade_deletion_policy == "Foreground" and works
    if FINALIZER in subject.metadata.finalizers and not waits:
        yield without_finalizers(subject, FINALIZER)


def rollout_of(
    subject: ManifestWorkReplicaSet, ref: LocalPlacementReference, works: list[ManifestWork], view: View
) -> PlacementRollout:
    placement = view.get(OcmPlacement, subject.namespace, ref.name)
    is_there = placement is not None and placement.metadata.deletion_timestamp is None
    pages = view.placement_snapshot.decisions_of(subject.namespace, ref.name).pages if is_there else {}
    batches = rollout_groups(
        (
            page.decision.metadata.labels.get(GROUP_NAME_LABEL, ""),
            page.decision.metadata.labels.get(GROUP_INDEX_LABEL, ""),
            page.clusters,
        )
        for page in pages.values()
    )
    own = {work.namespace: work for work in works if work.metadata.labels.get(PLACEMENT_NAME_LABEL) == ref.name}
    standings = {cluster: rollout_standing(subject, work, view.profile) for cluster, work in own.items()}
    next_steps = plan_rollout(batches, standings, ref.rollout_strategy, view.now)
    return PlacementRollout(ref, subject.spec.manifest_work_template, batches, bool(pages), own, next_steps)


def rollout_standing(subject: ManifestWorkReplicaSet, work: ManifestWork, profile: Profile) -> RolloutState:
    """How far a work is with the current template of the set."""
    if work.spec != subject.spec.manifest_work_template:
        return RolloutState(TO_APPLY)
    has_generations = any(one.observed_generation for one in work.status.conditions)
    if not has_generations and not profile.rollouts_need_generations:
        return standing_without_generations(work)
    progress = progress_condition(work)
    if progress is None:
        return RolloutState(PROGRESSING)
    degraded = find_condition(work.status.conditions, "Degraded")
    if progress.type == "Progressing" and progress.status == "False":
        return RolloutState(SUCCEEDED, progress.last_transition_time)
    if degraded is not None and degraded.status == "True":
        return RolloutState(FAILED, degraded.last_transition_time)
    if progress.type == "Available" and progress.status == "True":
        return RolloutState(SUCCEEDED, progress.last_transition_time)
    return RolloutState(PROGRESSING, progress.last_transition_time)


def standing_without_generations(work: ManifestWork) -> RolloutState:
    """The same of a work whose conditions name no generation, as OCM 1.0 reads them."""
    true = {one.type for one in work.status.conditions if one.status == "True"}
    applied = find_condition(work.status.conditions, "Applied")
    if applied is None:
        return RolloutState(PROGRESSING)
    if applied.status == "False" and "Progressing" not in true:
        return RolloutState(FAILED, applied.last_transition_time)
    if "Available" in true:
        return RolloutState(SUCCEEDED, work.metadata.creation_timestamp)
    if "Degraded" in true:
        return RolloutState(FAILED, applied.last_transition_time)
    return RolloutState(PROGRESSING, work.metadata.creation_timestamp)


def progress_condition(work: ManifestWork) -> Condition | None:
    """The condition that tells how far the work is: Progressing, or Available where an agent reports no progress.

    None unless the work was applied and its conditions are of the current generation.
    """
    found = {one.type: one for one in work.status.conditions}
    current = {type_ for type_, one in found.items() if one.observed_generation >= work.metadata.generation}
    if "Applied" not in current or found["Applied"].status != "True":
        return None
    if "Degraded" in found.keys() - current:
        return None
    return next((found[type_] for type_ in ("Progressing", "Available") if type_ in current), None)


def is_observed(work: ManifestWork) -> bool:
    """Whether the work was applied and its conditions are of the current generation."""
    return progress_condition(work) is not None


def work_for(subject: ManifestWorkReplicaSet, one: PlacementRollout, cluster: str) -> ManifestWork:
    labels = {
        **subject.metadata.labels,
        SET_LABEL: set_label_value(subject.namespace, subject.name),
        PLACEMENT_NAME_LABEL: one.ref.name,
    }
    before = one.works.get(cluster)
    if before is not None:
        metadata = without_leaving_since(before).metadata.but(labels={**before.metadata.labels, **labels})
        return before.but(metadata=metadata, spec=subject.spec.manifest_work_template)
    name = work_name("ManifestWorkReplicaSet", subject.name, subject.namespace)
    return ManifestWork(
        metadata=Meta(name=name, namespace=cluster, labels=labels), spec=subject.spec.manifest_work_template
    )


def invalid_label_condition(label: str, faults: list[str]) -> Condition:
    message = f"{label} cannot be a label value: {'; '.join(faults)}"
    return Condition(type="ManifestworkApplied", status="False", reason=NOT_AS_EXPECTED, message=message)


def rollout_conditions(
    subject: ManifestWorkReplicaSet,
    rollouts: list[PlacementRollout],
    removals: WorkRemovals,
    missing: list[str],
    profile: Profile,
) -> list[Condition]:
    verified = verified_condition(rollouts, missing)
    return [
        verified,
        rolled_out_condition(rollouts, removals),
        applied_condition(rollouts, verified.reason, profile),
        *stalled_condition(subject, removals),
    ]


def stalled_condition(subject: ManifestWorkReplicaSet, removals: WorkRemovals) -> Iterator[Condition]:
    """Why works remain in clusters that no placement selects; no condition for a set that never waited."""
    refusal = removals.refusal
    if refusal is not None:
        yield Condition(type="Stalled", status="True", reason=refusal.code, message=refusal.message)
    elif is_condition_true(subject.status.conditions, "Stalled"):
        yield Condition(type="Stalled", status="False", reason="Progressing")


def verified_condition(rollouts: list[PlacementRollout], missing: list[str]) -> Condition:
    if missing:
        message = ", ".join(f'namespaces "{name}" not found' for name in missing)
        return Condition(type="PlacementVerified", status="False", reason=NOT_AS_EXPECTED, message=message)
    reason = AS_EXPECTED
    if any(not one.is_decided for one in rollouts):
        reason = "PlacementDecisionNotFound"
    elif not any(one.clusters for one in rollouts):
        reason = DECISION_EMPTY
    return Condition(type="PlacementVerified", status="True" if reason == AS_EXPECTED else "False", reason=reason)


def rolled_out_condition(rollouts: list[PlacementRollout], removals: WorkRemovals) -> Condition:
    done = all(one.is_decided and one.plan.done for one in rollouts) and not removals.remaining
    return Condition(
        type="PlacementRolledOut", status="True" if done else "False", reason="Complete" if done else "Progressing"
    )


def applied_condition(rollouts: list[PlacementRollout], verified_reason: str, profile: Profile) -> Condition:
    """True when the works are available and neither progress nor are degraded."""
    counted = sum_summaries([summarize_works(one, profile) for one in rollouts])
    selected = sum(len(one.clusters) for one in rollouts)
    expected = selected if profile.replicaset_summary_counts_updates else counted.total
    if not counted.total:
        reason = verified_reason if verified_reason == DECISION_EMPTY else NOT_AS_EXPECTED
    elif counted.available == expected and not counted.progressing and not counted.degraded:
        reason = AS_EXPECTED
    else:
        reason = "Processing" if counted.progressing and not counted.degraded else NOT_AS_EXPECTED
    return Condition(type="ManifestworkApplied", status="True" if reason == AS_EXPECTED else "False", reason=reason)


def summarize_works(one: PlacementRollout, profile: Profile) -> ManifestWorkReplicaSetSummary:
    """The works of one placement, counted by their conditions; as upstream only those with the current template."""
    selected = set(one.clusters)
    there = [work for cluster, work in one.works.items() if cluster in selected or not one.is_decided]
    updated = [work for work in there if work.spec == one.template and work.metadata.deletion_timestamp is None]
    counted = there if profile.replicaset_summary_counts_updates else updated

    def count(type_: str) -> int:
        return sum(is_condition_true(work.status.conditions, type_) for work in counted)

    summary = ManifestWorkReplicaSetSummary(
        total=len(counted),
        applied=count("Applied"),
        available=count("Available"),
        progressing=count("Progressing"),
        degraded=count("Degraded"),
    )
    if not profile.replicaset_summary_counts_updates:
        return summary
    return summary.but(desired_total=len(one.clusters), updated=len(updated))


def placement_summary(one: PlacementRollout, profile: Profile) -> PlacementSummary:
    """The text counts groups and clusters with all works applied; as upstream all groups, and the works there are."""
    counted = summarize_works(one, profile)
    groups, applied = len(one.batches), counted.total
    if profile.replicaset_summary_counts_updates:
        groups = sum(all(cluster in one.works for cluster in batch.clusters) for batch in one.batches)
        applied = counted.applied
    groups_text = f"{groups} ({applied} / {len(one.clusters)} clusters applied)"
    return PlacementSummary(name=one.ref.name, available_decision_groups=groups_text, summary=counted)


def sum_summaries(summaries: list[ManifestWorkReplicaSetSummary]) -> ManifestWorkReplicaSetSummary:
    fields = ManifestWorkReplicaSetSummary.__struct_fields__
    return ManifestWorkReplicaSetSummary(**{f: sum(getattr(one, f) for one in summaries) for f in fields})


def status_update(
    subject: ManifestWorkReplicaSet, conditions: list[Condition], rollouts: list[PlacementRollout], view: View
) -> Iterator[ManifestWorkReplicaSet]:
    after = subject.status.conditions
    for condition in conditions:
        stamped = condition.but(
            last_transition_time=view.now.replace(microsecond=0), observed_generation=subject.metadata.generation
        )
        after = with_condition(after, stamped)
    summaries = [placement_summary(one, view.profile) for one in rollouts]
    status = subject.status.but(
        conditions=after,
        summary=sum_summaries([one.summary for one in summaries]),
        placement_summary=tuple(summaries),
    )
    if status != subject.status:
        yield subject.but(status=status)
