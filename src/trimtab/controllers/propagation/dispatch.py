"""Creates one Work per target cluster of a binding and deletes the Works of clusters that are no longer targets."""

from collections.abc import Iterable, Iterator

from trimtab.api.kind import key_of
from trimtab.api.kinds.override_policy import ClusterOverridePolicy, Override, OverridePolicy
from trimtab.api.kinds.work import Binding, HeldReplicas, TargetCluster, Work
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.conditions import join_messages
from trimtab.controllers.contract import (
    Delete,
    Effect,
    Index,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.movement import purge_guard
from trimtab.controllers.propagation.policy_matching import specificity_of
from trimtab.controllers.propagation.work_rendering import WorkRenderer, override_failure_events
from trimtab.interpret.operations import InterpreterError
from trimtab.interpret.overrides.overrides import OverrideError

PURGE_RECHECK_SECONDS = 5.0
RETRY_SECONDS = 10.0
CLAIM_MARKS = (
    well_known.PP_ID,
    well_known.PP_NAMESPACE,
    well_known.PP_NAME,
    well_known.CPP_ID,
    well_known.CPP_NAME,
)
DISPATCHED: Topic[Ref, tuple[int, ...]] = Topic("dispatched")


def binding_ids_of_work(work: Work) -> Iterable[str]:
    return [
        work.metadata.labels[label] for label in (well_known.RB_ID, well_known.CRB_ID) if label in work.metadata.labels
    ]


WORKS_OF_BINDING = Index("works of a binding", Work, binding_ids_of_work)


def works_of(binding: Binding, view: View) -> list[Work]:
    own = well_known.binding_id(binding)
    return list(view.by_index(WORKS_OF_BINDING, own)) if own else []


def bindings_of_override(old: Override | None, new: Override | None, view: View) -> Iterable[Key]:
    """An override policy was created, changed or deleted: the bindings whose template it selects or selected."""
    if old is not None and new is not None and old.spec == new.spec:
        return
    policies = [policy for policy in (old, new) if policy is not None]
    namespace = policies[0].namespace
    for binding in well_known.all_bindings(view):
        if namespace and binding.spec.resource.namespace != namespace:
            continue
        template = view.raw(well_known.template_ref(binding))
        if template is not None and any(specificity_of(policy, template) for policy in policies):
            yield key_of(binding)


def binding_of_changed_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A Work was deleted or edited: its binding restores it."""
    if old is None or (new is not None and not deletion_began(old, new) and not is_edited(old, new)):
        return
    key = well_known.binding_key_of_work(old)
    binding = well_known.binding_at(view, key.namespace, key.name) if key is not None else None
    if binding is not None:
        yield key_of(binding)


def is_edited(old: Work, new: Work) -> bool:
    return old.metadata.generation != new.metadata.generation and old.spec != new.spec


def deletion_began(old: Work, new: Work) -> bool:
    return old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None


def needs_dispatch(old: Binding | None, new: Binding) -> bool:
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.holds != new.status.holds
    )


@controller(
    *well_known.BINDINGS,
    writes=[
        "Work",
        f"metadata.finalizers[{well_known.BINDING_FINALIZER}]",
        f"metadata.finalizers[{well_known.CLUSTER_BINDING_FINALIZER}]",
    ],
    predicate=needs_dispatch,
    triggers=[
        Trigger(OverridePolicy, bindings_of_override),
        Trigger(ClusterOverridePolicy, bindings_of_override),
        Trigger(Work, binding_of_changed_work),
    ],
    resumes=True,
)
def dispatch(binding: Binding, view: View) -> Iterator[Effect]:
    works = works_of(binding, view)
    if binding.metadata.deletion_timestamp is not None:
        yield from finalize(binding, works)
        return
    expected = expected_clusters(binding)
    if not expected and not works and not view.profile.record_routine_events:
        return  # not scheduled yet
    orphans = [work for work in works if well_known.cluster_of(work.namespace) not in expected]
    for work in orphans:
        if work.metadata.deletion_timestamp is None:
            yield Delete(work)
    remnants = purge_guard.unpurged_copies(binding, works, view)
    if any(remnant.is_blocking(view.now) for remnant in remnants):
        # The old instance must be deleted before a new one starts.
        yield RequeueAfter(min([PURGE_RECHECK_SECONDS, *purge_guard.seconds_until_deadlines(remnants, view.now)]))
        return
    template = view.raw(well_known.template_ref(binding))
    if template is None:
        return
    yield from sync_works(binding, template, works, view)


def finalize(binding: Binding, works: list[Work]) -> Iterator[Effect]:
    for work in works:
        if work.metadata.deletion_timestamp is None:
            yield Delete(work)
    after = without_finalizers(binding, well_known.BINDING_FINALIZER, well_known.CLUSTER_BINDING_FINALIZER)
    if after is not binding:
        yield after


def expected_clusters(binding: Binding) -> set[str]:
    """The clusters in which this binding has Works: scheduled, required, being evicted, or held by a move."""
    names = {target.name for target in targets_of(binding)}
    names |= {
        task.from_cluster
        for task in binding.spec.graceful_eviction_tasks
        if task.purge_mode not in well_known.IMMEDIATE_PURGE_MODES
    }
    return names | {hold.cluster for hold in binding.status.holds}


def targets_of(binding: Binding) -> list[TargetCluster]:
    """The replicas of each cluster: its share, what other bindings require, and what holds keep."""
    shares = {target.name: target for target in binding.spec.clusters}
    for snapshot in binding.spec.required_by:
        for target in snapshot.clusters:
            shares.setdefault(target.name, target)
    for hold in binding.status.holds:
        share = shares.get(hold.cluster, TargetCluster(name=hold.cluster))
        shares[hold.cluster] = share.but(
            replicas=max(share.replicas, min(share.replicas + hold.replicas, replicas_before_move(binding, hold)))
        )
    return list(shares.values())


def replicas_before_move(binding: Binding, hold: HeldReplicas) -> int:
    """The replicas of the cluster before the move: a hold keeps replicas and never adds any."""
    replacement = binding.status.replacement
    before = {target.name: target.replicas for target in replacement.before} if replacement is not None else {}
    return before.get(hold.cluster, 2**31)


def sync_works(binding: Binding, template: Raw, works: list[Work], view: View) -> Iterator[Effect]:
    """Render the Work of every target cluster and write those that differ."""
    seen = {work.namespace: work for work in works}
    shares = targets_of(binding)
    renderer = WorkRenderer(binding, template, shares, view)
    cause = dispatch_cause(binding, template, view)
    last_cause = view.recall(DISPATCHED, well_known.ref_of(binding))
    fresh = last_cause != cause
    failures: list[str] = []
    changed = False
    for target in shares:
        try:
            work, notes = renderer.render(target)
        except InterpreterError as fault:
            failures.append(str(fault))
            continue
        except OverrideError as fault:
            failures.append(fault.cause)
            yield from override_failure_events(binding, fault, target.name)
            continue
        before = seen.get(work.namespace)
        if before is not None and before.metadata.deletion_timestamp is not None:
            yield RequeueAfter(0.5)  # the old Work must be deleted before one of the same name can be created
            continue
        forget = view.profile.drop_stale_overrides
        wanted = work if before is None else merge_work(before, work, forget_overrides=forget)
        if before is not None and last_cause is None and differs_in_former_claim(before, wanted):
            wanted = wanted.but(spec=before.spec)  # a restart, or a takeover, writes nothing in members for it
        if wanted != before:
            changed = True
            yield wanted
        if wanted != before or (fresh and view.profile.record_routine_events):
            yield from notes
    first = fresh and not view.profile.skip_empty_steps  # upstream reports what needed no write as well
    yield from sync_events(binding, failures, report_success=changed or first)
    if fresh and not failures:
        yield RememberInProcess(DISPATCHED, well_known.ref_of(binding), cause)


def dispatch_cause(binding: Binding, template: Raw, view: View) -> tuple[int, ...]:
    """The generations of the binding and of the override policies that select it: equal ones need no new events."""
    generations = [binding.metadata.generation]
    namespace = binding.spec.resource.namespace
    policies = (
        *view.all(ClusterOverridePolicy),
        *(view.all(OverridePolicy, namespace) if namespace else ()),
    )
    generations += [p.metadata.generation for p in policies if specificity_of(p, template)]
    return tuple(generations)


def merge_work(before: Work, work: Work, *, forget_overrides: bool = True) -> Work:
    """The existing Work with the labels, annotations, finalizers and spec of the new one."""
    stale = (well_known.APPLIED_OVERRIDES, well_known.APPLIED_CLUSTER_OVERRIDES) if forget_overrides else ()
    kept = {key: value for key, value in before.metadata.annotations.items() if key not in stale}
    return before.but(
        metadata=before.metadata.but(
            labels=before.metadata.labels | work.metadata.labels,
            annotations=kept | work.metadata.annotations,
            finalizers=tuple(dict.fromkeys((*before.metadata.finalizers, *work.metadata.finalizers))),
        ),
        spec=work.spec,
    )


def differs_in_former_claim(before: Work, wanted: Work) -> bool:
    """Whether the manifest only has lost the marks of a policy that has released the template.

    The release itself writes no Work. The marks leave with the next change.
    """
    manifests = tuple(map(without_claim, before.spec.workload.manifests))
    return manifests == wanted.spec.workload.manifests and before.spec == wanted.spec.but(workload=before.spec.workload)


def without_claim(manifest: Raw) -> Raw:
    """The manifest without the labels and annotations with which a policy claims a template."""
    labels, annotations = well_known.labels_of(manifest), well_known.annotations_of(manifest)
    kept_labels = {key: value for key, value in labels.items() if key not in CLAIM_MARKS}
    kept = {key: value for key, value in annotations.items() if key not in CLAIM_MARKS}
    for listing in (well_known.MANAGED_LABELS, well_known.MANAGED_ANNOTATIONS):
        if listing in kept:
            kept[listing] = ",".join(key for key in kept[listing].split(",") if key not in CLAIM_MARKS)
    return {**manifest, "metadata": {**manifest["metadata"], "labels": kept_labels, "annotations": kept}}


def sync_events(binding: Binding, failures: list[str], *, report_success: bool) -> Iterator[Effect]:
    """Events on failure, and on success when a Work was written or this generation is dispatched for the first time."""
    source = "cluster-resource-binding-controller" if well_known.is_cluster_scoped(binding) else "binding-controller"
    own, template = well_known.ref_of(binding), well_known.template_ref(binding)
    if failures:
        for about in (own, template):
            yield RecordEvent(about, "SyncWorkFailed", join_messages(failures), source, "Warning")
        yield RequeueAfter(RETRY_SECONDS)
    elif report_success:
        text = f"Sync work of {well_known.format_binding(binding)} successful."
        yield RecordEvent(own, "SyncWorkSucceed", text, source)
        yield RecordEvent(template, "SyncWorkSucceed", text, source, routine=True)
