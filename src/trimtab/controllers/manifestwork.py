"""ManifestWork -> a Work for the same cluster, and what that Work reports -> the conditions OCM's users look at."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from trimtab.api.kind import find_kind, key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm import (
    WORK_GROUP,
    FeedbackRule,
    FeedbackValue,
    FieldValue,
    ManifestCondition,
    ManifestConfigOption,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkSpec,
    ManifestWorkStatus,
    ServerSideApplyConfig,
    StatusFeedback,
    WorkResourceIdentifier,
)
from trimtab.api.kinds.work import ManifestStatus, ResourceIdentifier, Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Condition, Key, Meta, Raw
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Gone, MemberWake, Unseen, View, Wake, Wish, controller
from trimtab.controllers.dispatch import renewed
from trimtab.controllers.render import marked
from trimtab.interpret.names import work_name
from trimtab.interpret.prune import prune

SOURCE_NAME = "trimtab.dev/manifestwork"
FINALIZER = f"{WORK_GROUP}/manifest-work-cleanup"
_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]|\['([^']+)'\]")
WELL_KNOWN: dict[tuple[str, str], dict[str, str]] = {
    ("apps", "Deployment"): {
        "ReadyReplicas": ".status.readyReplicas",
        "Replicas": ".status.replicas",
        "AvailableReplicas": ".status.availableReplicas",
    },
    ("batch", "Job"): {
        "JobComplete": ".status.completionTime",
        "JobSucceeded": ".status.succeeded",
    },
    ("", "Pod"): {"PodPhase": ".status.phase"},
}


def own_work_name(name: str) -> str:
    return work_name("ManifestWork", name)


def of_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    work = new or old or Work()
    cluster, name = marks.cluster_of(work.namespace), work.metadata.annotations.get(SOURCE_NAME)
    found = view.get(ManifestWork, cluster, name) if cluster and name else None
    if found is not None:
        yield key_of(found)


def of_object(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    annotations = marks.annotations_of(new or old or {"metadata": {}})
    found = view.get(ManifestWork, cluster, annotations.get(SOURCE_NAME, ""))
    if found is not None:
        yield key_of(found)


def of_room(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The execution namespace of a cluster is there: what waited for it can go on."""
    if old is None and new is not None and (cluster := marks.cluster_of(new.name)):
        yield from map(key_of, view.all(ManifestWork, cluster))


@controller(
    ManifestWork,
    writes=["status", "metadata.finalizers", "Work"],
    wakes=[Wake(Work, of_work), Wake(Namespace, of_room), MemberWake(of_object)],
)
def manifest_work(subject: ManifestWork, view: View) -> Iterator[Wish]:
    cluster = view.get(Cluster, "", subject.namespace)
    room = marks.execution_namespace(subject.namespace)
    seen = view.get(Work, room, own_work_name(subject.name))
    if subject.metadata.deletion_timestamp is not None:
        yield from farewell(subject, seen)
        return
    if cluster is None or view.get(Namespace, "", room) is None:
        return  # not a cluster of ours: an agent of its own serves it, or it is about to join
    if FINALIZER not in subject.metadata.finalizers:
        metadata = subject.metadata.but(finalizers=(*subject.metadata.finalizers, FINALIZER))
        yield subject.but(metadata=metadata)
        return
    wanted = work_of(subject)
    if seen is not None and seen.metadata.deletion_timestamp is not None:
        yield Again(0.5)  # the old Work has to go before a new one of its name can come
        return
    after = wanted if seen is None else renewed(seen, wanted)
    if after != seen:
        yield after
    status = status_of(subject, after, view)
    if status != subject.status:
        yield subject.but(status=status)


def farewell(subject: ManifestWork, seen: Work | None) -> Iterator[Wish]:
    """The objects go before the ManifestWork does."""
    if seen is not None and seen.metadata.deletion_timestamp is None:
        yield Gone(seen)
    elif seen is None and FINALIZER in subject.metadata.finalizers:
        finalizers = tuple(f for f in subject.metadata.finalizers if f != FINALIZER)
        yield subject.but(metadata=subject.metadata.but(finalizers=finalizers))


def work_of(subject: ManifestWork) -> Work:
    """The Work that brings the manifests to the cluster; what is there already is taken over, as OCM's agent does."""
    envelope = Meta(
        name=own_work_name(subject.name),
        namespace=marks.execution_namespace(subject.namespace),
        labels={marks.WORK_ID: marks.permanent_id(subject.metadata.uid, subject.namespace)},
        annotations={SOURCE_NAME: subject.name, marks.CONFLICT_RESOLUTION: "overwrite"},
        finalizers=(marks.WORK_FINALIZER,),
    )
    template = {"metadata": {"uid": subject.metadata.uid, "generation": subject.metadata.generation}}
    manifests = tuple(
        marked(treated(prune(manifest), subject.spec), template, envelope)
        for manifest in subject.spec.workload.manifests
    )
    option = subject.spec.delete_option
    orphans = option is not None and option.propagation_policy == "Orphan"
    return Work(
        metadata=envelope,
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=manifests),
            suspend_dispatching=False,
            preserve_resources_on_deletion=orphans,
        ),
    )


def treated(manifest: Raw, spec: ManifestWorkSpec) -> Raw:
    """The manifest with what is to be observed when it is applied, and when it is taken away."""
    notes: dict[str, str | None] = {}
    for config in configs_of(spec, identity(manifest)):
        strategy = config.update_strategy
        if strategy is not None and strategy.type != "Update":
            notes[marks.UPDATE_STRATEGY] = strategy.type
        if strategy is not None and strategy.type == "ServerSideApply":
            details = strategy.server_side_apply or ServerSideApplyConfig()
            notes[marks.FIELD_MANAGER] = (details.field_manager or "work-agent") + ("!" if details.force else "")
    if is_orphan(manifest, spec):
        notes[marks.ON_DELETION] = "Orphan"
    return marks.remarked(manifest, labels={}, annotations=notes) if notes else manifest


def identity(manifest: Raw) -> WorkResourceIdentifier:
    """How rules name an object."""
    metadata = manifest["metadata"]
    return WorkResourceIdentifier(
        group=manifest["apiVersion"].rpartition("/")[0],
        resource=plural_of(manifest["apiVersion"], manifest["kind"]),
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
    )


def plural_of(api_version: str, kind: str) -> str:
    """The plural of a kind we know; of others what most people would have called it."""
    known = find_kind(api_version, kind)
    if known is not None:
        return known.plural
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch", "sh")) else f"{name}s"


def configs_of(spec: ManifestWorkSpec, wanted: WorkResourceIdentifier) -> Iterator[ManifestConfigOption]:
    return (config for config in spec.manifest_configs if config.resource_identifier == wanted)


def is_orphan(manifest: Raw, spec: ManifestWorkSpec) -> bool:
    option = spec.delete_option
    if option is None or option.propagation_policy != "SelectivelyOrphan" or option.selectively_orphans is None:
        return False
    mine = identity(manifest)
    named = (mine.group, mine.resource, mine.namespace, mine.name)
    rules = option.selectively_orphans.orphaning_rules
    return any((rule.group, rule.resource, rule.namespace, rule.name) == named for rule in rules)


def status_of(subject: ManifestWork, work: Work, view: View) -> ManifestWorkStatus:
    conditions = tuple(one for one in subject.status.conditions if not is_outlived(one, subject, work, view))
    for condition in conditions_of(subject, work, view):
        stamped = condition.but(
            last_transition_time=view.now.replace(microsecond=0), observed_generation=subject.metadata.generation
        )
        conditions = marks.with_condition(conditions, stamped)
    items = tuple(manifest_condition(subject, status, view) for status in work.status.manifest_statuses)
    return subject.status.but(conditions=conditions, resource_status=ManifestResourceStatus(manifests=items))


def is_outlived(condition: Condition, subject: ManifestWork, work: Work, view: View) -> bool:
    """A new generation has progressed since it came, not since an earlier one did."""
    newer = condition.type == "Progressing" and condition.observed_generation != subject.metadata.generation
    return newer and has_generation(subject, work, view)


def conditions_of(subject: ManifestWork, work: Work, view: View) -> Iterator[Condition]:
    """Nothing is said of a generation that the member has not got yet."""
    applied = marks.condition_of(work.status.conditions, "Applied")
    if applied is None or not has_generation(subject, work, view):
        return
    there = applied.status == "True"
    yield Condition(
        type="Applied",
        status=applied.status,
        reason="AppliedManifestWorkComplete" if there else "AppliedManifestWorkFailed",
        message="Apply manifest work complete" if there else applied.message,
    )
    health = {status.health for status in work.status.manifest_statuses}
    complete = there and len(work.status.manifest_statuses) == len(work.spec.workload.manifests)
    yield Condition(
        type="Available",
        status="True" if complete else "False",
        reason="ResourcesAvailable" if complete else "ResourcesNotAvailable",
        message="All resources are available" if complete else "Some resources are not available",
    )
    settled = complete and not health & {"Unhealthy", "Unknown"}
    yield Condition(
        type="Progressing",
        status="False" if settled else "True",
        reason="Completed" if settled else "Applying",
        message="All resources are as they should be" if settled else "Some resources are not as they should be yet",
    )
    degraded = "Unhealthy" in health
    yield Condition(
        type="Degraded",
        status="True" if degraded else "False",
        reason="ResourcesUnhealthy" if degraded else "ResourcesHealthy",
        message="Some resources do not do well" if degraded else "All resources do well",
    )


def has_generation(subject: ManifestWork, work: Work, view: View) -> bool:
    """Whether the member's objects, as far as they can be seen from here, are of the present generation."""
    for manifest in work.spec.workload.manifests:
        if marks.annotations_of(manifest).get(marks.UPDATE_STRATEGY) in ("CreateOnly", "ReadOnly"):
            continue
        seen = view.member(subject.namespace, marks.ref_of_raw(manifest)._replace(uid=""))
        if seen is None:
            return False
        if isinstance(seen, Unseen):
            continue
        if marks.annotations_of(seen).get(marks.TEMPLATE_GENERATION) != str(subject.metadata.generation):
            return False
    return True


def manifest_condition(subject: ManifestWork, status: ManifestStatus, view: View) -> ManifestCondition:
    known = status.identifier
    meta = ManifestResourceMeta(
        ordinal=known.ordinal,
        group=known.group,
        version=known.version,
        kind=known.kind,
        resource=plural_of(f"{known.group}/{known.version}".lstrip("/"), known.kind),
        namespace=known.namespace,
        name=known.name,
    )
    before = next((m for m in subject.status.resource_status.manifests if m.resource_meta == meta), ManifestCondition())
    at = view.now.replace(microsecond=0)
    applied = Condition(type="Applied", status="True", reason="AppliedManifestComplete", last_transition_time=at)
    available = Condition(type="Available", status="True", reason="ResourceAvailable", last_transition_time=at)
    conditions = marks.with_condition(marks.with_condition(before.conditions, applied), available)
    return ManifestCondition(
        resource_meta=meta,
        conditions=conditions,
        status_feedback=StatusFeedback(values=tuple(feedback(subject, status))),
    )


def feedback(subject: ManifestWork, status: ManifestStatus) -> Iterator[FeedbackValue]:
    """The values that the author asked to be told."""
    known, document = status.identifier, {"status": status.status or {}}
    for config in configs_of(subject.spec, resource_identifier(known)):
        for rule in config.feedback_rules:
            for name, path in paths_of(rule, known.group, known.kind):
                value = dug(document, path)
                if value is not None:
                    yield FeedbackValue(name=name, field_value=field_value(value))


def resource_identifier(known: ResourceIdentifier) -> WorkResourceIdentifier:
    plural = plural_of(f"{known.group}/{known.version}".lstrip("/"), known.kind)
    return WorkResourceIdentifier(group=known.group, resource=plural, name=known.name, namespace=known.namespace)


def paths_of(rule: FeedbackRule, group: str, kind: str) -> Iterable[tuple[str, str]]:
    if rule.type == "WellKnownStatus":
        return WELL_KNOWN.get((group, kind), {}).items()
    return [(entry.name, entry.path) for entry in rule.json_paths]


def dug(document: Any, path: str) -> Any:
    """What stands at a plain path (`.status.replicas`, `.status.conditions[0].type`); None for any other path."""
    if _PATH_PART.sub("", path):
        return None
    for name, number, quoted in _PATH_PART.findall(path):
        try:
            document = document[int(number)] if number else document[name or quoted]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def field_value(value: Any) -> FieldValue:
    if isinstance(value, bool):
        return FieldValue(type="Boolean", boolean=value)
    if isinstance(value, int):
        return FieldValue(type="Integer", integer=value)
    if isinstance(value, str):
        return FieldValue(type="String", string=value)
    return FieldValue(type="JsonRaw", json_raw=json.dumps(value, separators=(",", ":"))[:1024])
