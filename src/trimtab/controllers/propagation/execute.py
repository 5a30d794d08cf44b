"""Applies the manifests of a Work in its member cluster and reports their status in the Work."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from trimtab.api.jsonpath import InvalidJSONPath
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import ManifestStatus, Work, WorkStatus
from trimtab.api.value import Condition, Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained_to_leave, is_leaving
from trimtab.controllers.clusters.served import is_served_by
from trimtab.controllers.conditions import find_condition, is_condition_true, join_messages, with_condition
from trimtab.controllers.contract import (
    CheckAccess,
    Delete,
    Effect,
    Ensure,
    Fetch,
    FindForeignObjects,
    InCluster,
    MemberTrigger,
    NotFetched,
    ReconcileFault,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.propagation.object_ownership import (
    foreign_control_plane,
    is_managed,
    is_managed_here,
    ownership_problem,
    with_control_plane,
)
from trimtab.controllers.propagation.work_status import reflect_status, resource_identifier
from trimtab.controllers.settings import setting
from trimtab.interpret.ignore_fields import with_ignored_fields
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import InterpreterError, Operation
from trimtab.interpret.prune import prune

SOURCE = "execution-controller"
NOT_READY_SECONDS = 10.0
CONFLICT_SECONDS = 10.0
READ_INTERVAL_SECONDS = 30.0
"""How old a fetched object with the strategy ReadOnly may be."""
LISTING_SECONDS = 5.0
"""How long the list of the objects in a namespace is valid."""
ACCESS_CHECK_SECONDS = 60.0
"""How long the result of an access review is valid."""
CREATE_ONLY, READ_ONLY, SERVER_SIDE_APPLY, COMPLETED = "CreateOnly", "ReadOnly", "ServerSideApply", "Completed"
ESCALATION_VERBS = {"Role": "escalate", "ClusterRole": "escalate", "RoleBinding": "bind", "ClusterRoleBinding": "bind"}
"""The verbs that allow granting permissions which the executor does not have."""
LOST_RACE_REASONS = ("AlreadyExists", "Conflict")
"""Another writer was first: not a failure to report, the next reconcile sees the new object."""
ANNOTATIONS_TO_REMOVE = (
    well_known.RB_NAMESPACE,
    well_known.RB_NAME,
    well_known.CRB_NAME,
    well_known.WORK_NAMESPACE,
    well_known.WORK_NAME,
    well_known.TEMPLATE_UID,
    well_known.TEMPLATE_GENERATION,
    well_known.MANAGED_ANNOTATIONS,
    well_known.MANAGED_LABELS,
    well_known.PP_NAMESPACE,
    well_known.PP_NAME,
    well_known.CPP_NAME,
    well_known.UPDATE_STRATEGY,
    well_known.FIELD_MANAGER,
    well_known.IGNORE_FIELDS,
    well_known.CONFIG_HASH,
    well_known.ON_DELETION,
    well_known.CONTROL_PLANE,
    well_known.ADOPTED,
)
LABELS_TO_REMOVE = (
    well_known.MANAGED,
    well_known.RB_ID,
    well_known.CRB_ID,
    well_known.WORK_ID,
    well_known.PP_ID,
    well_known.CPP_ID,
)


def work_changed(old: Work | None, new: Work) -> bool:
    return old is None or (old.metadata.generation, old.metadata.deletion_timestamp) != (
        new.metadata.generation,
        new.metadata.deletion_timestamp,
    )


def works_of_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """A cluster became ready, or is being deleted: its Works."""
    if new is None:
        return
    became_ready = is_ready(new) and (old is None or not is_ready(old)) and view.profile.recovery_cancels_eviction
    is_deleted = new.metadata.deletion_timestamp is not None
    if became_ready or is_deleted:
        for work in view.all(Work, well_known.execution_namespace(new.name)):
            yield Key(kind_of(Work).id, work.namespace, work.name)


def work_of_object(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    """The Work named by the annotations of the member's object."""
    for raw in (new, old):
        if raw is not None:
            annotations = well_known.annotations_of(raw)
            namespace, name = annotations.get(well_known.WORK_NAMESPACE), annotations.get(well_known.WORK_NAME)
            if namespace == well_known.execution_namespace(cluster) and name:
                yield Key(kind_of(Work).id, namespace, name)
                return


def is_ready(cluster: Cluster) -> bool:
    return is_condition_true(cluster.status.conditions, "Ready")


@controller(
    Work,
    writes=["status", "metadata.finalizers"],
    predicate=work_changed,
    triggers=[Trigger(Cluster, works_of_cluster), MemberTrigger(work_of_object)],
)
def execute(work: Work, view: View) -> Iterator[Effect]:
    name = well_known.cluster_of(work.namespace)
    cluster = view.get(Cluster, "", name)
    agent = setting(view, "agent")
    if not name or (agent and name != agent) or (cluster is not None and not is_served_by(cluster, agent)):
        return
    if work.metadata.deletion_timestamp is not None:
        yield from remove_from_member(work, cluster, view)
    elif cluster is not None:
        yield from sync_to_member(work, cluster, view)


def remove_from_member(work: Work, cluster: Cluster | None, view: View) -> Iterator[Effect]:
    """Delete the objects in the member, or release those to be kept, and then remove the finalizer of the Work."""
    if well_known.WORK_FINALIZER not in work.metadata.finalizers:
        return
    if cluster is not None and not is_ready(cluster) and awaits_recovery(cluster, view):
        yield RequeueAfter(NOT_READY_SECONDS)
        return
    if cluster is not None and is_ready(cluster):
        for manifest in work.spec.workload.manifests:
            ref = well_known.ref_without_uid(manifest)
            seen = view.member(cluster.name, ref)
            if strategy_of(manifest) == READ_ONLY:
                continue
            if isinstance(seen, NotFetched):
                yield Fetch(cluster.name, ref)
                return
            if seen is not None and is_managed_here(seen, view):
                stays = work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(manifest)
                if not stays and is_leaving(cluster, view.profile):
                    others = objects_of_others(ref, seen, cluster, view)
                    if others is None:
                        yield FindForeignObjects(cluster.name, ref.name)
                        return
                    stays = others
                yield InCluster(cluster.name, release_object(seen) if stays else Delete(ref))
    finalizers = tuple(one for one in work.metadata.finalizers if one != well_known.WORK_FINALIZER)
    yield work.but(metadata=work.metadata.but(finalizers=finalizers))


def awaits_recovery(cluster: Cluster, view: View) -> bool:
    """Whether objects in a cluster that does not answer are deleted later; not in one that is removed now."""
    if not is_drained_to_leave(cluster, view.profile):
        return cluster.metadata.deletion_timestamp is None
    namespace = view.get(Namespace, "", well_known.execution_namespace(cluster.name))
    return namespace is not None and not namespace.is_terminating


def objects_of_others(ref: Ref, seen: Raw, cluster: Cluster, view: View) -> bool | None:
    """Whether the object existed before its Work, or is a namespace with objects of others; None if not known yet."""
    if well_known.ADOPTED in well_known.annotations_of(seen):
        return True
    if (ref.api_version, ref.kind) != ("v1", "Namespace"):
        return False
    known: tuple[datetime, tuple[str, ...]] | None = view.recall(
        "foreign objects", FindForeignObjects(cluster.name, ref.name)
    )
    if known is None or (view.now - known[0]).total_seconds() >= LISTING_SECONDS:
        return None
    return bool(known[1])


def strategy_of(manifest: Raw) -> str:
    return well_known.annotations_of(manifest).get(well_known.UPDATE_STRATEGY, "")


def is_orphaned_on_deletion(manifest: Raw) -> bool:
    return well_known.annotations_of(manifest).get(well_known.ON_DELETION) == "Orphan"


def release_object(seen: Raw) -> Ensure:
    """The member's object without the labels and annotations that mark it as managed."""
    return Ensure(
        well_known.with_metadata(
            seen, labels=dict.fromkeys(LABELS_TO_REMOVE), annotations=dict.fromkeys(ANNOTATIONS_TO_REMOVE)
        ),
        seen=seen,
    )


class Delivery(NamedTuple):
    """The state of one manifest in the member, and the write it needs."""

    ref: Ref
    manifest: Raw
    seen: Raw | None
    write: Ensure | None
    problem: str
    remember: RememberInProcess | None = None
    fetch: Fetch | None = None
    """The object has to be fetched first."""


def sync_to_member(work: Work, cluster: Cluster, view: View) -> Iterator[Effect]:
    now = view.now.replace(microsecond=0)
    if work.spec.suspend_dispatching:
        yield from report_suspended(work, cluster, with_dispatching(work, now, suspended=True), view)
        return
    if not is_ready(cluster):
        yield from update_status(work, work.status.but(conditions=with_dispatching(work, now, suspended=False)))
        yield RequeueAfter(NOT_READY_SECONDS)
        return
    checks = access_checks(work, cluster)
    if unknown := [check for check in checks.values() if cached_access(check, view) is None]:
        yield from unknown
        return
    deliveries = [
        forbidden_delivery(manifest, view)
        if ordinal in checks and not cached_access(checks[ordinal], view)
        else plan_delivery(work, manifest, cluster, view)
        for ordinal, manifest in enumerate(work.spec.workload.manifests)
    ]
    if unseen := [item for item in deliveries if item.fetch is not None]:
        yield from (effect for item in unseen for effect in (item.remember, item.fetch) if effect is not None)
        return
    yield from remove_dropped_manifests(work, deliveries, cluster, view)
    yield from report_problems(work, deliveries, cluster, view)
    yield from write_differences(work, deliveries, cluster, view)
    yield from requeues(deliveries, checked=bool(checks))
    if all(item.write is None and not item.problem for item in deliveries):
        yield from report_status(work, deliveries, with_dispatching(work, now, suspended=False), view)


def report_problems(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Effect]:
    """Set Applied=False for manifests that cannot be applied or failed last time; record an event for a new failure."""
    problems = [item.problem for item in deliveries if item.problem]
    if view.fault is not None and view.fault.cluster and not is_lost_race(view.fault, deliveries):
        problems.append(view.fault.message)
    if not problems:
        return
    error = join_messages(problems)
    message = f"Failed to apply all manifests ({len(deliveries) - len(problems)}/{len(deliveries)}): {error}"
    now = view.now.replace(microsecond=0)
    failed = new_condition("Applied", "False", "AppliedFailed", message, now)
    conditions = with_condition(with_dispatching(work, now, suspended=False), failed)
    yield from update_status(work, work.status.but(conditions=conditions))
    if view.profile.record_routine_events or is_new_failure(work, failed):
        yield from failure_events(work, deliveries, cluster, error)


def write_differences(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Effect]:
    """Write the manifests that differ, and remember what was sent to recognise the member's defaults later."""
    fresh = is_unreported_generation(work, view)
    for item in deliveries:
        if item.remember is not None:
            yield item.remember
        if item.write is not None:
            yield InCluster(cluster.name, item.write)
            yield RememberInProcess("sent", (cluster.name, item.ref), fingerprint(prune(item.write.wanted)))
        if item.write is not None or (fresh and not item.problem):
            yield from success_events(work, item, cluster)
    if fresh:
        yield RememberInProcess("synced", well_known.ref_of(work), work.metadata.generation)


def requeues(deliveries: list[Delivery], *, checked: bool) -> Iterator[Effect]:
    """Requeues for what no watch reports: the end of a conflict, a revoked permission, a changed read-only object."""
    if any(item.problem for item in deliveries):
        yield RequeueAfter(CONFLICT_SECONDS)
    elif checked:
        yield RequeueAfter(ACCESS_CHECK_SECONDS)
    if any(strategy_of(item.manifest) == READ_ONLY for item in deliveries):
        yield RequeueAfter(READ_INTERVAL_SECONDS)


def report_suspended(work: Work, cluster: Cluster, conditions: tuple[Condition, ...], view: View) -> Iterator[Effect]:
    """A suspended Work writes nothing, but still reports the status of what was applied before."""
    refs = [well_known.ref_without_uid(manifest) for manifest in work.spec.workload.manifests]
    found = [view.member(cluster.name, ref) for ref in refs]
    there = [raw for raw in found if raw is not None and not isinstance(raw, NotFetched) and is_managed_here(raw, view)]
    applied = is_condition_true(work.status.conditions, "Applied")
    if not applied or not is_ready(cluster) or len(there) != len(refs):
        yield from update_status(work, work.status.but(conditions=conditions))
        return
    deliveries = [
        Delivery(ref, manifest, raw, None, "")
        for ref, manifest, raw in zip(refs, work.spec.workload.manifests, there, strict=True)
    ]
    yield from report_status(work, deliveries, conditions, view)


def access_checks(work: Work, cluster: Cluster) -> dict[int, CheckAccess]:
    """The permissions that the executor of this Work needs, by the ordinal of the manifest; empty without executor."""
    namespace, _, name = work.metadata.annotations.get(well_known.EXECUTOR, "").partition("/")
    if not name:
        return {}
    user = f"system:serviceaccount:{namespace}:{name}"
    checks: dict[int, CheckAccess] = {}
    for ordinal, manifest in enumerate(work.spec.workload.manifests):
        ref = well_known.ref_without_uid(manifest)
        if strategy_of(manifest) == READ_ONLY:
            verbs = ["get"]
        else:
            verbs = ["create", "update", "patch", "get"]
            verbs += [] if work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(manifest) else ["delete"]
            verbs += [ESCALATION_VERBS[ref.kind]] if ref.kind in ESCALATION_VERBS else []
        checks[ordinal] = CheckAccess(cluster.name, user, ref, tuple(verbs))
    return checks


def cached_access(check: CheckAccess, view: View) -> bool | None:
    """The result of the last access review; None when there is none or it has expired."""
    known: tuple[datetime, bool] | None = view.recall("allowed", check)
    if known is None or (view.steady_now - known[0]).total_seconds() >= ACCESS_CHECK_SECONDS:
        return None
    return known[1]


def forbidden_delivery(manifest: Raw, view: View) -> Delivery:
    ref = well_known.ref_without_uid(manifest)
    group = ref.api_version.rpartition("/")[0]
    problem = (
        f"not allowed to apply the resource {group} {ref.kind}, {ref.namespace} {ref.name}, will try again in 1m0s"
    )
    return Delivery(ref, manifest, None, None, problem)


def is_lost_race(fault: ReconcileFault, deliveries: list[Delivery]) -> bool:
    """Whether another writer was first. Field-manager conflicts do not resolve on retry, so they are reported."""
    applying = any(item.write is not None and item.write.apply_as for item in deliveries)
    return fault.reason in LOST_RACE_REASONS and not (applying and fault.reason == "Conflict")


def remove_dropped_manifests(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Effect]:
    """Delete or release the objects whose manifests were removed from the Work."""
    wanted = {item.ref for item in deliveries}
    for status in work.status.manifest_statuses:
        known = status.identifier
        version = f"{known.group}/{known.version}" if known.group else known.version
        ref = Ref(version, known.kind, known.namespace, known.name)
        seen = view.member(cluster.name, ref) if ref not in wanted else None
        if isinstance(seen, NotFetched) or seen is None:
            continue
        if well_known.annotations_of(seen).get(well_known.WORK_NAME) == work.name and is_managed_here(seen, view):
            stays = work.spec.preserve_resources_on_deletion or is_orphaned_on_deletion(seen)
            yield InCluster(cluster.name, release_object(seen) if stays else Delete(ref))


def plan_delivery(work: Work, manifest: Raw, cluster: Cluster, view: View) -> Delivery:
    """The write that one manifest needs, given the object in the member and the update strategy."""
    ref = well_known.ref_without_uid(manifest)
    strategy, seen = strategy_of(manifest), view.member(cluster.name, ref)
    if strategy == READ_ONLY:
        return read_only_delivery(ref, manifest, seen, cluster, view)
    there = None if isinstance(seen, NotFetched) else seen
    if (
        strategy == COMPLETED
        or (strategy == CREATE_ONLY and there is not None)
        or is_shared_namespace(ref, there, view)
    ):
        return Delivery(ref, manifest, there, None, "")
    if there is not None and (problem := ownership_problem(work, manifest, ref, there, cluster.name, view)):
        return Delivery(ref, manifest, there, None, problem)
    manifest = with_control_plane(manifest, view)
    if strategy == SERVER_SIDE_APPLY:
        try:
            return Delivery(
                ref, manifest, there, server_side_apply(with_adoption_mark(manifest, there, view), there), ""
            )
        except InvalidJSONPath as fault:
            return Delivery(ref, manifest, there, None, str(fault))
    if isinstance(seen, NotFetched) or seen is None:
        return Delivery(ref, manifest, None, Ensure(manifest), "")
    if not is_managed(seen) and well_known.annotations_of(manifest).get(well_known.CONFLICT_RESOLUTION) != "overwrite":
        problem = (
            f"resource(kind={ref.kind}, {ref.namespace}/{ref.name}) already exists in the cluster {cluster.name} and the "
            f"{well_known.CONFLICT_RESOLUTION} strategy value is empty, Karmada will not manage this resource"
        )
        return Delivery(ref, manifest, seen, None, problem)
    try:
        wanted = with_member_fields(with_adoption_mark(manifest, seen, view), seen, view.part("interpreter"))
    except InterpreterError as fault:
        return Delivery(ref, manifest, seen, None, str(fault))
    same, memory = matches_last_write(cluster.name, ref, wanted, seen, view)
    return Delivery(ref, manifest, seen, None if same else Ensure(wanted, seen=seen, replace=True), "", memory)


def is_shared_namespace(ref: Ref, there: Raw | None, view: View) -> bool:
    """Whether another control plane created this namespace: both use it, and neither writes what the other has."""
    return ref.kind == "Namespace" and bool(foreign_control_plane(there, view))


def with_adoption_mark(manifest: Raw, seen: Raw | None, view: View) -> Raw:
    """The manifest, marked if the member's object was not created by a Work: it stays when the cluster leaves."""
    if seen is None or not view.profile.drain_before_leaving:
        return manifest
    if is_managed(seen) and well_known.ADOPTED not in well_known.annotations_of(seen):
        return manifest
    return well_known.with_metadata(manifest, labels={}, annotations={well_known.ADOPTED: "true"})


def read_only_delivery(
    ref: Ref, manifest: Raw, seen: Raw | NotFetched | None, cluster: Cluster, view: View
) -> Delivery:
    """A ReadOnly object: it may be unmanaged, and those are not watched, so it is fetched at intervals."""
    fetched: datetime | None = view.recall("looked", (cluster.name, ref))
    if fetched is None or (view.steady_now - fetched).total_seconds() >= READ_INTERVAL_SECONDS:
        memory = RememberInProcess("looked", (cluster.name, ref), view.steady_now)
        return Delivery(ref, manifest, None, None, "", memory, Fetch(cluster.name, ref))
    if isinstance(seen, NotFetched) or seen is None:
        problem = f"{ref.kind} {well_known.qualified_name(ref)} has update strategy ReadOnly but does not exist"
        return Delivery(ref, manifest, None, None, problem)
    return Delivery(ref, manifest, seen, None, "")


def server_side_apply(manifest: Raw, seen: Raw | None) -> Ensure | None:
    """Server-side apply, unless the object has every field of the manifest already; other fields are ignored."""
    wanted = manifest if seen is None else apply_ignore_rules(manifest, seen)
    if seen is not None and contains(seen, wanted):
        return None
    manager = well_known.annotations_of(manifest).get(well_known.FIELD_MANAGER, "work-agent")
    return Ensure(wanted, seen=seen, apply_as=manager.rstrip("!"), force=manager.endswith("!"))


def apply_ignore_rules(manifest: Raw, seen: Raw) -> Raw:
    """The manifest with the member's values in the fields that its ignore-fields rules name; raises InvalidJSONPath."""
    mine, theirs = well_known.annotations_of(manifest), well_known.annotations_of(seen)
    for rule in orjson.loads(mine.get(well_known.IGNORE_FIELDS, "[]")):
        changed = mine.get(well_known.CONFIG_HASH) != theirs.get(well_known.CONFIG_HASH)
        if rule["condition"] == "OnSpokePresent" or not changed:
            manifest = with_ignored_fields(manifest, seen, rule)
    return manifest


def contains(there: Any, wanted: Any) -> bool:
    """Whether `there` has every wanted field, whatever else it has; list entries may be at any index."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(contains(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and all(any(contains(one, item) for one in there) for item in wanted)
    return bool(there == wanted)


def with_member_fields(manifest: Raw, seen: Raw, interpreter: Interpreter) -> Raw:
    """The manifest with what the member owns: resourceVersion, its own labels and annotations, and retained fields."""
    mine, theirs = manifest["metadata"], seen["metadata"]
    metadata = {**mine, "resourceVersion": theirs.get("resourceVersion", "")}
    for field in ("finalizers", "ownerReferences"):
        if theirs.get(field):
            metadata[field] = theirs[field]
    for section, record in (("annotations", well_known.MANAGED_ANNOTATIONS), ("labels", well_known.MANAGED_LABELS)):
        applied_before = set((theirs.get("annotations") or {}).get(record, "").split(","))
        kept = {k: v for k, v in (theirs.get(section) or {}).items() if k not in applied_before}
        merged = kept | (mine.get(section) or {})
        if merged:
            metadata[section] = merged
    wanted = {**manifest, "metadata": metadata}
    if interpreter.interprets((manifest["apiVersion"], manifest["kind"]), Operation.RETAIN):
        wanted = interpreter.retain(wanted, seen)
    return wanted


def fingerprint(pruned: Raw) -> int:
    """A hash of the object that is valid only within this process, like what `RememberInProcess` keeps.

    Python's own hash is keyed and keeps the interpreter lock; hashlib releases it for texts of this size.
    """
    return hash(orjson.dumps(pruned, option=orjson.OPT_SORT_KEYS))


def matches_last_write(
    cluster: str, ref: Ref, wanted: Raw, seen: Raw, view: View
) -> tuple[bool, RememberInProcess | None]:
    """Whether the member's object is as wanted, apart from defaults of its API server, and what to remember.

    A member may default fields that the host does not know. Then the object never equals the manifest; it counts as
    unchanged as long as it equals what the member made of the last write.
    """
    mine, theirs = prune(wanted), prune(seen)
    last, settled = view.recall("sent", (cluster, ref)), view.recall("settled", (cluster, ref))
    if mine == theirs:
        # The member added no defaults, so any later difference is a change by another writer.
        exact = last is not None and (settled is None or settled[0] != last)
        return True, RememberInProcess("settled", (cluster, ref), (last, last)) if exact else None
    wanted_hash, found_hash = fingerprint(mine), fingerprint(theirs)
    if last != wanted_hash:
        return False, None
    if settled is None or settled[0] != wanted_hash:
        return True, RememberInProcess("settled", (cluster, ref), (wanted_hash, found_hash))
    return settled[1] == found_hash, None


def report_status(
    work: Work, deliveries: list[Delivery], conditions: tuple[Condition, ...], view: View
) -> Iterator[Effect]:
    """Set Applied=True and the statuses of all manifests in the Work."""
    now = view.now.replace(microsecond=0)
    applied = new_condition("Applied", "True", "AppliedSuccessful", "Manifest has been successfully applied", now)
    statuses: list[ManifestStatus] = []
    events: list[RecordEvent] = []
    for ordinal, item in enumerate(deliveries):
        if item.seen is None:
            continue
        status, reflected = reflect_status(work, resource_identifier(ordinal, item.manifest), item.seen, view)
        statuses.append(status)
        events += reflected
    wanted = WorkStatus(conditions=with_condition(conditions, applied), manifest_statuses=tuple(statuses))
    yield from update_status(work, wanted)
    versions = tuple(item.seen["metadata"].get("resourceVersion") for item in deliveries if item.seen is not None)
    own = well_known.ref_of(work)
    if view.recall("reflected", own) != versions:
        yield from events
        yield RememberInProcess("reflected", own, versions)


def update_status(work: Work, status: WorkStatus) -> Iterator[Effect]:
    if status != work.status:
        yield work.but(status=status)
        before = find_condition(work.status.conditions, "Dispatching")
        after = find_condition(status.conditions, "Dispatching")
        if after is not None and (before is None or before.status != after.status):
            yield RecordEvent(well_known.ref_of(work), "WorkDispatching", after.message, SOURCE, routine=True)


def with_dispatching(work: Work, now: datetime, *, suspended: bool) -> tuple[Condition, ...]:
    if suspended:
        new = new_condition(
            "Dispatching", "False", "SuspendDispatching", "Work dispatching is in a suspended state.", now
        )
    else:
        new = new_condition("Dispatching", "True", "Dispatching", "Work is being dispatched to member clusters.", now)
    return with_condition(work.status.conditions, new)


def new_condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)


def template_of(item: Delivery) -> Ref:
    """The template on the host: events about the member's object are recorded on it."""
    return item.ref._replace(uid=well_known.annotations_of(item.manifest).get(well_known.TEMPLATE_UID, ""))


def success_events(work: Work, item: Delivery, cluster: Cluster) -> Iterator[RecordEvent]:
    text = f"Sync work({work.namespace}/{work.name}) to cluster({cluster.name}) successful."
    yield RecordEvent(well_known.ref_of(work), "SyncSucceed", text, SOURCE, routine=True)
    name = f"{item.ref.namespace}/{item.ref.name}"
    text = f"Successfully applied resource({name}) to cluster {cluster.name}"
    yield RecordEvent(template_of(item), "SyncSucceed", text, SOURCE)


def is_unreported_generation(work: Work, view: View) -> bool:
    """Whether upstream would record the sync of this generation, which it does even when nothing was written."""
    return (
        view.profile.record_routine_events
        and view.recall("synced", well_known.ref_of(work)) != work.metadata.generation
    )


def is_new_failure(work: Work, failed: Condition) -> bool:
    before = find_condition(work.status.conditions, "Applied")
    return before is None or before.message != failed.message


def failure_events(work: Work, deliveries: list[Delivery], cluster: Cluster, error: str) -> Iterator[RecordEvent]:
    text = f"Failed to sync work({work.namespace}/{work.name}) to cluster({cluster.name}), err: {error}"
    yield RecordEvent(well_known.ref_of(work), "SyncFailed", text, SOURCE, "Warning")
    for item in deliveries:
        name = well_known.qualified_name(item.ref)
        text = f"Failed to create or update resource({name}) in member cluster({cluster.name}): "
        yield RecordEvent(template_of(item), "SyncFailed", text + (item.problem or error), SOURCE, "Warning")
