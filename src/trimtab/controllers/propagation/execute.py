"""Work -> the object in the member, and what the member says of it -> Work status."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from trimtab.api.jsonpath import BadPath
from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ManifestStatus, Work, WorkStatus
from trimtab.api.value import Condition, Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    Again,
    Fault,
    Gone,
    Inquire,
    Look,
    Make,
    MemberWake,
    Note,
    Ref,
    Remember,
    Unseen,
    View,
    Wake,
    Wish,
    Within,
    controller,
)
from trimtab.controllers.propagation.work_status import identify, reflect
from trimtab.interpret.ignore_fields import spared
from trimtab.interpret.interpreter import Interpreter
from trimtab.interpret.operations import Operation, Uninterpretable
from trimtab.interpret.prune import prune

SOURCE = "execution-controller"
NOT_READY_SECONDS = 10.0
CONFLICT_SECONDS = 10.0
READ_SECONDS = 30.0
"""How old the sight of an object that is only read may be."""
ALLOWED_SECONDS = 60.0
"""How long a member's word on what an executor may do is believed."""
CREATE_ONLY, READ_ONLY, SERVER_SIDE_APPLY, COMPLETED = "CreateOnly", "ReadOnly", "ServerSideApply", "Completed"
GRANTS = {"Role": "escalate", "ClusterRole": "escalate", "RoleBinding": "bind", "ClusterRoleBinding": "bind"}
"""What it takes to give others permissions that one may not have oneself."""
OVERTAKEN = ("AlreadyExists", "Conflict")
"""Somebody was faster: no reason to complain, only to look again."""
OURS_TO_REMOVE = (
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
    """A cluster came back, or leaves: what waited for it is looked at again."""
    if new is None:
        return
    came_back = is_ready(new) and (old is None or not is_ready(old)) and view.profile.recovery_cancels_eviction
    leaves = new.metadata.deletion_timestamp is not None
    if came_back or leaves:
        for work in view.all(Work, well_known.execution_namespace(new.name)):
            yield Key(kind_of(Work).id, work.namespace, work.name)


def work_of_object(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    """The member's object carries the name of the Work that sent it."""
    for raw in (new, old):
        if raw is not None:
            annotations = well_known.annotations_of(raw)
            namespace, name = annotations.get(well_known.WORK_NAMESPACE), annotations.get(well_known.WORK_NAME)
            if namespace == well_known.execution_namespace(cluster) and name:
                yield Key(kind_of(Work).id, namespace, name)
                return


def is_ready(cluster: Cluster) -> bool:
    return well_known.is_true(cluster.status.conditions, "Ready")


@controller(
    Work,
    writes=["status", "metadata.finalizers"],
    changed=work_changed,
    wakes=[Wake(Cluster, works_of_cluster), MemberWake(work_of_object)],
)
def execute(work: Work, view: View) -> Iterator[Wish]:
    name = well_known.cluster_of(work.namespace)
    cluster = view.get(Cluster, "", name)
    if not name or (cluster is not None and not is_mine(cluster, view)):
        return
    if work.metadata.deletion_timestamp is not None:
        yield from withdraw(work, cluster, view)
    elif cluster is not None:
        yield from deliver(work, cluster, view)


def is_mine(cluster: Cluster, view: View) -> bool:
    """Push clusters are served from here, a Pull cluster by its own agent."""
    agent = well_known.setting(view, "agent", default="")
    return cluster.name == agent if agent else cluster.spec.sync_mode != "Pull"


def withdraw(work: Work, cluster: Cluster | None, view: View) -> Iterator[Wish]:
    """Take the objects out of the member (or only our marks, when they shall stay), then let the Work go."""
    if well_known.WORK_FINALIZER not in work.metadata.finalizers:
        return
    if cluster is not None and cluster.metadata.deletion_timestamp is None and not is_ready(cluster):
        yield Again(NOT_READY_SECONDS)
        return
    if cluster is not None and is_ready(cluster):
        for manifest in work.spec.workload.manifests:
            ref = well_known.place_of_raw(manifest)
            seen = view.member(cluster.name, ref)
            if strategy_of(manifest) == READ_ONLY:
                continue
            if isinstance(seen, Unseen):
                yield Look(cluster.name, ref)
                return
            if seen is not None and is_managed(seen):
                stays = work.spec.preserve_resources_on_deletion or is_to_stay(manifest)
                yield Within(cluster.name, released(seen) if stays else Gone(ref))
    finalizers = tuple(f for f in work.metadata.finalizers if f != well_known.WORK_FINALIZER)
    yield work.but(metadata=work.metadata.but(finalizers=finalizers))


def strategy_of(manifest: Raw) -> str:
    return well_known.annotations_of(manifest).get(well_known.UPDATE_STRATEGY, "")


def is_to_stay(manifest: Raw) -> bool:
    return well_known.annotations_of(manifest).get(well_known.ON_DELETION) == "Orphan"


def is_managed(raw: Raw) -> bool:
    return well_known.labels_of(raw).get(well_known.MANAGED) == "true"


def released(seen: Raw) -> Make:
    """The member's object, ours no more."""
    return Make(
        well_known.remarked(seen, labels=dict.fromkeys(LABELS_TO_REMOVE), annotations=dict.fromkeys(OURS_TO_REMOVE)),
        seen=seen,
    )


class Delivery(NamedTuple):
    """How one manifest stands in the member."""

    ref: Ref
    manifest: Raw
    seen: Raw | None
    wish: Make | None
    problem: str
    memory: Remember | None = None
    look: Look | None = None
    """It has to be fetched before anything can be said."""


def deliver(work: Work, cluster: Cluster, view: View) -> Iterator[Wish]:
    now = view.now.replace(microsecond=0)
    if work.spec.suspend_dispatching:
        yield from observed(work, cluster, dispatching(work, now, suspended=True), view)
        return
    if not is_ready(cluster):
        yield from told(work, work.status.but(conditions=dispatching(work, now, suspended=False)))
        yield Again(NOT_READY_SECONDS)
        return
    inquiries = inquiries_of(work, cluster)
    if unasked := [inquiry for inquiry in inquiries.values() if answer_to(inquiry, view) is None]:
        yield from unasked
        return
    deliveries = [
        forbidden(manifest, view)
        if manifest_id in inquiries and not answer_to(inquiries[manifest_id], view)
        else delivery(manifest, cluster, view)
        for manifest_id, manifest in enumerate(work.spec.workload.manifests)
    ]
    if unseen := [item for item in deliveries if item.look is not None]:
        yield from (wish for item in unseen for wish in (item.memory, item.look) if wish is not None)
        return
    yield from dropped(work, deliveries, cluster, view)
    yield from complained(work, deliveries, cluster, view)
    yield from sent(work, deliveries, cluster, view)
    yield from appointments(deliveries, inquired=bool(inquiries))
    if all(item.wish is None and not item.problem for item in deliveries):
        yield from report(work, deliveries, dispatching(work, now, suspended=False), view)


def complained(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Wish]:
    """What cannot be applied, or could not be last time, stands in a condition; the first time it is told, too."""
    problems = [item.problem for item in deliveries if item.problem]
    if view.fault is not None and view.fault.cluster and not is_overtaken(view.fault, deliveries):
        problems.append(view.fault.message)
    if not problems:
        return
    wrong = well_known.all_of(problems)
    message = f"Failed to apply all manifests ({len(deliveries) - len(problems)}/{len(deliveries)}): {wrong}"
    now = view.now.replace(microsecond=0)
    failed = condition("Applied", "False", "AppliedFailed", message, now)
    conditions = well_known.with_condition(dispatching(work, now, suspended=False), failed)
    yield from told(work, work.status.but(conditions=conditions))
    if view.profile.tell_routine or is_news(work, failed):
        yield from tell_failure(work, deliveries, cluster, wrong)


def sent(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Wish]:
    """What differs is written in the member; what was sent is remembered, so that an echo is known as such."""
    fresh = is_new_to_us(work, view)
    for item in deliveries:
        if item.memory is not None:
            yield item.memory
        if item.wish is not None:
            yield Within(cluster.name, item.wish)
            yield Remember("sent", (cluster.name, item.ref), fingerprint(prune(item.wish.wanted)))
        if item.wish is not None or (fresh and not item.problem):
            yield from tell_success(work, item, cluster)
    if fresh:
        yield Remember("synced", well_known.ref_of(work), work.metadata.generation)


def appointments(deliveries: list[Delivery], *, inquired: bool) -> Iterator[Wish]:
    """Nobody tells us when a conflict ends, when a right is taken away, or when what is only read changes."""
    if any(item.problem for item in deliveries):
        yield Again(CONFLICT_SECONDS)
    elif inquired:
        yield Again(ALLOWED_SECONDS)
    if any(strategy_of(item.manifest) == READ_ONLY for item in deliveries):
        yield Again(READ_SECONDS)


def observed(work: Work, cluster: Cluster, conditions: tuple[Condition, ...], view: View) -> Iterator[Wish]:
    """Nothing is sent; but how that fares which was sent before is still told."""
    refs = [well_known.place_of_raw(manifest) for manifest in work.spec.workload.manifests]
    sights = [view.member(cluster.name, ref) for ref in refs]
    there = [raw for raw in sights if raw is not None and not isinstance(raw, Unseen) and is_managed(raw)]
    applied = well_known.is_true(work.status.conditions, "Applied")
    if not applied or not is_ready(cluster) or len(there) != len(refs):
        yield from told(work, work.status.but(conditions=conditions))
        return
    deliveries = [
        Delivery(ref, manifest, raw, None, "")
        for ref, manifest, raw in zip(refs, work.spec.workload.manifests, there, strict=True)
    ]
    yield from report(work, deliveries, conditions, view)


def inquiries_of(work: Work, cluster: Cluster) -> dict[int, Inquire]:
    """What the executor of this Work, if it has one, must be allowed to do, by the number of the manifest."""
    namespace, _, name = work.metadata.annotations.get(well_known.EXECUTOR, "").partition("/")
    if not name:
        return {}
    user = f"system:serviceaccount:{namespace}:{name}"
    found: dict[int, Inquire] = {}
    for number, manifest in enumerate(work.spec.workload.manifests):
        ref = well_known.place_of_raw(manifest)
        if strategy_of(manifest) == READ_ONLY:
            verbs = ["get"]
        else:
            verbs = ["create", "update", "patch", "get"]
            verbs += [] if work.spec.preserve_resources_on_deletion or is_to_stay(manifest) else ["delete"]
            verbs += [GRANTS[ref.kind]] if ref.kind in GRANTS else []
        found[number] = Inquire(cluster.name, user, ref, tuple(verbs))
    return found


def answer_to(inquiry: Inquire, view: View) -> bool | None:
    """What the member last said; None when it has not been asked lately."""
    known: tuple[datetime, bool] | None = view.recall("allowed", inquiry)
    if known is None or (view.now - known[0]).total_seconds() >= ALLOWED_SECONDS:
        return None
    return known[1]


def forbidden(manifest: Raw, view: View) -> Delivery:
    ref = well_known.place_of_raw(manifest)
    group = ref.api_version.rpartition("/")[0]
    problem = (
        f"not allowed to apply the resource {group} {ref.kind}, {ref.namespace} {ref.name}, will try again in 1m0s"
    )
    return Delivery(ref, manifest, None, None, problem)


def is_overtaken(fault: Fault, deliveries: list[Delivery]) -> bool:
    """A conflict between field managers is nobody's haste: it lasts until somebody gives in."""
    applying = any(item.wish is not None and item.wish.apply_as for item in deliveries)
    return fault.reason in OVERTAKEN and not (applying and fault.reason == "Conflict")


def dropped(work: Work, deliveries: list[Delivery], cluster: Cluster, view: View) -> Iterator[Wish]:
    """What the Work had, and has no more, leaves the member."""
    wanted = {item.ref for item in deliveries}
    for status in work.status.manifest_statuses:
        known = status.identifier
        version = f"{known.group}/{known.version}" if known.group else known.version
        ref = Ref(version, known.kind, known.namespace, known.name)
        seen = view.member(cluster.name, ref) if ref not in wanted else None
        if isinstance(seen, Unseen) or seen is None:
            continue
        if well_known.annotations_of(seen).get(well_known.WORK_NAME) == work.name and is_managed(seen):
            stays = work.spec.preserve_resources_on_deletion or is_to_stay(seen)
            yield Within(cluster.name, released(seen) if stays else Gone(ref))


def delivery(manifest: Raw, cluster: Cluster, view: View) -> Delivery:
    """What the member needs to be told, given what is there."""
    ref = well_known.place_of_raw(manifest)
    strategy, seen = strategy_of(manifest), view.member(cluster.name, ref)
    if strategy == READ_ONLY:
        return sight(ref, manifest, seen, cluster, view)
    there = None if isinstance(seen, Unseen) else seen
    if strategy == SERVER_SIDE_APPLY:
        try:
            return Delivery(ref, manifest, there, applied_over(manifest, there), "")
        except BadPath as fault:
            return Delivery(ref, manifest, there, None, str(fault))
    if strategy == COMPLETED or (strategy == CREATE_ONLY and there is not None):
        return Delivery(ref, manifest, there, None, "")
    if isinstance(seen, Unseen) or seen is None:
        return Delivery(ref, manifest, None, Make(manifest), "")
    if not is_managed(seen) and well_known.annotations_of(manifest).get(well_known.CONFLICT_RESOLUTION) != "overwrite":
        problem = (
            f"resource(kind={ref.kind}, {ref.namespace}/{ref.name}) already exists in the cluster {cluster.name} and the "
            f"{well_known.CONFLICT_RESOLUTION} strategy value is empty, Karmada will not manage this resource"
        )
        return Delivery(ref, manifest, seen, None, problem)
    try:
        wanted = reconciled(manifest, seen, view.part("interpreter"))
    except Uninterpretable as fault:
        return Delivery(ref, manifest, seen, None, str(fault))
    same, memory = is_as_sent(cluster.name, ref, wanted, seen, view)
    return Delivery(ref, manifest, seen, None if same else Make(wanted, seen=seen, replace=True), "", memory)


def sight(ref: Ref, manifest: Raw, seen: Raw | Unseen | None, cluster: Cluster, view: View) -> Delivery:
    """An object that is only looked at: it need not be ours, so nobody tells when it changes."""
    looked: datetime | None = view.recall("looked", (cluster.name, ref))
    if looked is None or (view.now - looked).total_seconds() >= READ_SECONDS:
        memory = Remember("looked", (cluster.name, ref), view.now)
        return Delivery(ref, manifest, None, None, "", memory, Look(cluster.name, ref))
    if isinstance(seen, Unseen) or seen is None:
        place = f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
        return Delivery(ref, manifest, None, None, f"{ref.kind} {place} is only read here, and it does not exist")
    return Delivery(ref, manifest, seen, None, "")


def applied_over(manifest: Raw, seen: Raw | None) -> Make | None:
    """Server-side apply, unless every field of ours is there: fields of others are not our business."""
    wanted = manifest if seen is None else with_spared_fields(manifest, seen)
    if seen is not None and contains(seen, wanted):
        return None
    manager = well_known.annotations_of(manifest).get(well_known.FIELD_MANAGER, "work-agent")
    return Make(wanted, seen=seen, apply_as=manager.rstrip("!"), force=manager.endswith("!"))


def with_spared_fields(manifest: Raw, seen: Raw) -> Raw:
    """The manifest with fields as they are in the member, where its author lets others have them; raises BadPath."""
    mine, theirs = well_known.annotations_of(manifest), well_known.annotations_of(seen)
    for rule in orjson.loads(mine.get(well_known.IGNORE_FIELDS, "[]")):
        renewed = mine.get(well_known.CONFIG_HASH) != theirs.get(well_known.CONFIG_HASH)
        if rule["condition"] == "OnSpokePresent" or not renewed:
            manifest = spared(manifest, seen, rule)
    return manifest


def contains(there: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there, whatever else is; entries of lists may be found in any place."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(contains(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and all(any(contains(one, item) for one in there) for item in wanted)
    return bool(there == wanted)


def reconciled(manifest: Raw, seen: Raw, interpreter: Interpreter) -> Raw:
    """The manifest with what belongs to the member: its identity, its own marks, and what Retain rules keep."""
    mine, theirs = manifest["metadata"], seen["metadata"]
    metadata = {**mine, "resourceVersion": theirs.get("resourceVersion", "")}
    for field in ("finalizers", "ownerReferences"):
        if theirs.get(field):
            metadata[field] = theirs[field]
    for section, ledger in (("annotations", well_known.MANAGED_ANNOTATIONS), ("labels", well_known.MANAGED_LABELS)):
        once_ours = set((theirs.get("annotations") or {}).get(ledger, "").split(","))
        kept = {k: v for k, v in (theirs.get(section) or {}).items() if k not in once_ours}
        merged = kept | (mine.get(section) or {})
        if merged:
            metadata[section] = merged
    wanted = {**manifest, "metadata": metadata}
    if interpreter.interprets((manifest["apiVersion"], manifest["kind"]), Operation.RETAIN):
        wanted = interpreter.retain(wanted, seen)
    return wanted


def fingerprint(pruned: Raw) -> int:
    """A number to know the object by, as long as this process lives, as what is remembered does.

    Python's own hash is keyed with a secret and takes no lock; hashlib gives up the interpreter for texts of this size.
    """
    return hash(orjson.dumps(pruned, option=orjson.OPT_SORT_KEYS))


def is_as_sent(cluster: str, ref: Ref, wanted: Raw, seen: Raw, view: View) -> tuple[bool, Remember | None]:
    """Whether the member has what we want, whatever its API server filled in on top.

    A member may default fields that the host does not know. Then the object never equals the manifest; what counts is
    that it has not changed since we sent exactly this.
    """
    mine, theirs = prune(wanted), prune(seen)
    last, settled = view.recall("sent", (cluster, ref)), view.recall("settled", (cluster, ref))
    if mine == theirs:
        # From now on any difference is somebody's doing, and none of the member's defaults.
        exact = last is not None and (settled is None or settled[0] != last)
        return True, Remember("settled", (cluster, ref), (last, last)) if exact else None
    sent, found = fingerprint(mine), fingerprint(theirs)
    if last != sent:
        return False, None
    if settled is None or settled[0] != sent:
        return True, Remember("settled", (cluster, ref), (sent, found))
    return settled[1] == found, None


def report(work: Work, deliveries: list[Delivery], conditions: tuple[Condition, ...], view: View) -> Iterator[Wish]:
    """Everything is in place: say so, with what the member says about it."""
    now = view.now.replace(microsecond=0)
    applied = condition("Applied", "True", "AppliedSuccessful", "Manifest has been successfully applied", now)
    statuses: list[ManifestStatus] = []
    notes: list[Note] = []
    for ordinal, item in enumerate(deliveries):
        if item.seen is None:
            continue
        status, said = reflect(work, identify(ordinal, item.manifest), item.seen, view)
        statuses.append(status)
        notes += said
    wanted = WorkStatus(conditions=well_known.with_condition(conditions, applied), manifest_statuses=tuple(statuses))
    yield from told(work, wanted)
    versions = tuple(item.seen["metadata"].get("resourceVersion") for item in deliveries if item.seen is not None)
    own = well_known.ref_of(work)
    if view.recall("reflected", own) != versions:
        yield from notes
        yield Remember("reflected", own, versions)


def told(work: Work, status: WorkStatus) -> Iterator[Wish]:
    if status != work.status:
        yield work.but(status=status)
        before = well_known.condition_of(work.status.conditions, "Dispatching")
        after = well_known.condition_of(status.conditions, "Dispatching")
        if after is not None and (before is None or before.status != after.status):
            yield Note(well_known.ref_of(work), "WorkDispatching", after.message, SOURCE, routine=True)


def dispatching(work: Work, now: datetime, *, suspended: bool) -> tuple[Condition, ...]:
    if suspended:
        said = condition("Dispatching", "False", "SuspendDispatching", "Work dispatching is in a suspended state.", now)
    else:
        said = condition("Dispatching", "True", "Dispatching", "Work is being dispatched to member clusters.", now)
    return well_known.with_condition(work.status.conditions, said)


def condition(type_: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=now)


def about_template(item: Delivery) -> Ref:
    """Events about the member's object are told to the owner of the template on the host."""
    return item.ref._replace(uid=well_known.annotations_of(item.manifest).get(well_known.TEMPLATE_UID, ""))


def tell_success(work: Work, item: Delivery, cluster: Cluster) -> Iterator[Note]:
    text = f"Sync work({work.namespace}/{work.name}) to cluster({cluster.name}) successful."
    yield Note(well_known.ref_of(work), "SyncSucceed", text, SOURCE, routine=True)
    place = f"{item.ref.namespace}/{item.ref.name}"
    said = f"Successfully applied resource({place}) to cluster {cluster.name}"
    yield Note(about_template(item), "SyncSucceed", said, SOURCE)


def is_new_to_us(work: Work, view: View) -> bool:
    """Whether this generation has not been told of; where routine is told, even one that changes nothing there is."""
    return view.profile.tell_routine and view.recall("synced", well_known.ref_of(work)) != work.metadata.generation


def is_news(work: Work, failed: Condition) -> bool:
    before = well_known.condition_of(work.status.conditions, "Applied")
    return before is None or before.message != failed.message


def tell_failure(work: Work, deliveries: list[Delivery], cluster: Cluster, wrong: str) -> Iterator[Note]:
    text = f"Failed to sync work({work.namespace}/{work.name}) to cluster({cluster.name}), err: {wrong}"
    yield Note(well_known.ref_of(work), "SyncFailed", text, SOURCE, "Warning")
    for item in deliveries:
        place = "/".join(part for part in (item.ref.namespace, item.ref.name) if part)
        said = f"Failed to create or update resource({place}) in member cluster({cluster.name}): "
        yield Note(about_template(item), "SyncFailed", said + (item.problem or wrong), SOURCE, "Warning")
