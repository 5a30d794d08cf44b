"""Creates a Work for each ManifestWork, and turns the status of the Work into the conditions of OCM."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from trimtab.api.kind import find_kind, key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_work import (
    WORK_GROUP,
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
from trimtab.api.kinds.work import ManifestStatus, Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Condition, Key, Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import (
    Delete,
    Effect,
    MemberTrigger,
    NotFetched,
    Ref,
    RequeueAfter,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.finalizers import without_finalizers
from trimtab.controllers.ocm.feedback import (
    COMPLETE,
    aggregate_rule_conditions,
    evaluate_condition_rules,
    is_complete,
    is_from_rule,
    read_feedback,
)
from trimtab.controllers.ocm.workset_budgets import SET_LABEL
from trimtab.controllers.propagation.detect import digest
from trimtab.controllers.propagation.dispatch import merge_work
from trimtab.controllers.propagation.work_rendering import with_tracking_metadata
from trimtab.interpret.names import work_name
from trimtab.interpret.operations import InterpreterError, Operation
from trimtab.interpret.prune import prune

FINALIZER = f"{WORK_GROUP}/manifest-work-cleanup"


def own_work_name(name: str) -> str:
    return work_name("ManifestWork", name)


def manifestwork_of_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    work = new or old or Work()
    name = work.metadata.annotations.get(well_known.MANIFEST_WORK)
    cluster = well_known.cluster_of(work.namespace) if name else ""
    found = view.get(ManifestWork, cluster, name) if cluster and name else None
    if found is not None:
        yield key_of(found)


def manifestwork_of_object(cluster: str, old: Raw | None, new: Raw | None, view: View) -> Iterable[Key]:
    annotations = well_known.annotations_of(new or old or {"metadata": {}})
    found = view.get(ManifestWork, cluster, annotations.get(well_known.MANIFEST_WORK, ""))
    if found is not None:
        yield key_of(found)


def manifestworks_of_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterable[Key]:
    """The ManifestWorks of a cluster whose execution namespace was created: they waited for it."""
    if old is None and new is not None and (cluster := well_known.cluster_of(new.name)):
        yield from map(key_of, view.all(ManifestWork, cluster))


@controller(
    ManifestWork,
    writes=["status", "metadata.finalizers", "Work"],
    triggers=[
        Trigger(Work, manifestwork_of_work),
        Trigger(Namespace, manifestworks_of_namespace),
        MemberTrigger(manifestwork_of_object),
    ],
)
def manifestwork(subject: ManifestWork, view: View) -> Iterator[Effect]:
    cluster = view.get(Cluster, "", subject.namespace)
    namespace = well_known.execution_namespace(subject.namespace)
    seen = view.get(Work, namespace, own_work_name(subject.name))
    if subject.metadata.deletion_timestamp is not None:
        yield from remove_manifestwork(subject, seen)
        return
    if cluster is None or view.get(Namespace, "", namespace) is None:
        # Not joined here: its own OCM agent serves it, or it is about to join.
        yield from delete_after_ttl(subject, view)
        return
    if FINALIZER not in subject.metadata.finalizers:
        metadata = subject.metadata.but(finalizers=(*subject.metadata.finalizers, FINALIZER))
        yield subject.but(metadata=metadata)
        return
    wanted = work_of(subject)
    if seen is not None and seen.metadata.deletion_timestamp is not None:
        yield RequeueAfter(0.5)  # the old Work must be deleted before one of the same name can be created
        return
    after = wanted if seen is None else merge_work(seen, wanted)
    if after != seen:
        yield after
    status = status_of(subject, after, view)
    if status != subject.status:
        yield subject.but(status=status)
    yield from delete_after_ttl(subject.but(status=status), view)


def delete_after_ttl(subject: ManifestWork, view: View) -> Iterator[Effect]:
    """Delete a complete ManifestWork after its TTL; not one of a replica set, which would create it again."""
    ttl = subject.spec.delete_option.ttl_seconds_after_finished if subject.spec.delete_option is not None else None
    complete = find_condition(subject.status.conditions, COMPLETE)
    if ttl is None or complete is None or complete.status != "True" or SET_LABEL in subject.metadata.labels:
        return
    remaining = ttl - (view.now - (complete.last_transition_time or view.now)).total_seconds()
    if remaining > 0:
        yield RequeueAfter(remaining + 0.001)
    else:
        yield Delete(subject)


def remove_manifestwork(subject: ManifestWork, seen: Work | None) -> Iterator[Effect]:
    """Delete the Work, and with it the objects, before the finalizer is removed."""
    if seen is not None and seen.metadata.deletion_timestamp is None:
        yield Delete(seen)
    elif seen is None and FINALIZER in subject.metadata.finalizers:
        yield without_finalizers(subject, FINALIZER)


def work_of(subject: ManifestWork) -> Work:
    """The Work that applies the manifests in the cluster; existing objects are taken over, as OCM's agent does."""
    envelope = Meta(
        name=own_work_name(subject.name),
        namespace=well_known.execution_namespace(subject.namespace),
        labels={well_known.WORK_ID: well_known.permanent_id(subject.metadata.uid, subject.namespace)},
        annotations={well_known.MANIFEST_WORK: subject.name, well_known.CONFLICT_RESOLUTION: "overwrite"},
        finalizers=(well_known.WORK_FINALIZER,),
    )
    template = {"metadata": {"uid": subject.metadata.uid, "generation": subject.metadata.generation}}
    done = {identifier_of(item) for item in subject.status.resource_status.manifests if is_complete(item)}
    manifests = tuple(
        with_tracking_metadata(annotate_manifest(prune(manifest), subject.spec, done), template, envelope)
        for manifest in subject.spec.workload.manifests
    )
    account = subject.spec.executor.subject.service_account if subject.spec.executor is not None else None
    executor = {well_known.EXECUTOR: f"{account.namespace}/{account.name}"} if account is not None else {}
    option = subject.spec.delete_option
    orphans = option is not None and option.propagation_policy == "Orphan"
    return Work(
        metadata=envelope.but(annotations=envelope.annotations | executor),
        spec=WorkSpec(
            workload=WorkloadTemplate(manifests=manifests),
            suspend_dispatching=False,
            preserve_resources_on_deletion=orphans,
        ),
    )


def annotate_manifest(manifest: Raw, spec: ManifestWorkSpec, done: Collection[WorkResourceIdentifier]) -> Raw:
    """The manifest with annotations for its update strategy and for its deletion."""
    annotations: dict[str, str | None] = {}
    own = resource_identifier(manifest)
    for config in configs_of(spec, own):
        strategy = config.update_strategy
        if strategy is not None and strategy.type != "Update":
            annotations[well_known.UPDATE_STRATEGY] = strategy.type
        if strategy is not None and strategy.type == "ServerSideApply":
            annotations |= server_side_apply_annotations(
                strategy.server_side_apply or ServerSideApplyConfig(), manifest
            )
    if own in done:
        annotations[well_known.UPDATE_STRATEGY] = "Completed"
    if is_orphan(manifest, spec):
        annotations[well_known.ON_DELETION] = "Orphan"
    return well_known.with_metadata(manifest, labels={}, annotations=annotations) if annotations else manifest


def server_side_apply_annotations(details: ServerSideApplyConfig, manifest: Raw) -> dict[str, str | None]:
    """The annotations for server-side apply: field manager and ignored fields."""
    annotations: dict[str, str | None] = {}
    annotations[well_known.FIELD_MANAGER] = (details.field_manager or "work-agent") + ("!" if details.force else "")
    if details.ignore_fields:
        annotations[well_known.IGNORE_FIELDS] = msgspec.json.encode(details.ignore_fields).decode()
        annotations[well_known.CONFIG_HASH] = digest(manifest).hex()
    return annotations


def resource_identifier(manifest: Raw) -> WorkResourceIdentifier:
    """The identifier by which manifest configs and orphaning rules refer to an object."""
    metadata = manifest["metadata"]
    return WorkResourceIdentifier(
        group=manifest["apiVersion"].rpartition("/")[0],
        resource=plural_of(manifest["apiVersion"], manifest["kind"]),
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
    )


def plural_of(api_version: str, kind: str) -> str:
    """The plural of a declared kind; for other kinds the regular English plural."""
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
    own = resource_identifier(manifest)
    name = (own.group, own.resource, own.namespace, own.name)
    rules = option.selectively_orphans.orphaning_rules
    return any((rule.group, rule.resource, rule.namespace, rule.name) == name for rule in rules)


def status_of(subject: ManifestWork, work: Work, view: View) -> ManifestWorkStatus:
    items = tuple(manifest_conditions(subject, work, view))
    current = [*conditions_of(subject, work, view), *aggregate_rule_conditions(items)]
    types = {condition.type for condition in current}
    conditions = tuple(
        one
        for one in subject.status.conditions
        if not is_outdated(one, subject, work, view) and (one.type in types or not is_from_rule(one))
    )
    for condition in current:
        stamped = condition.but(
            last_transition_time=view.now.replace(microsecond=0), observed_generation=subject.metadata.generation
        )
        conditions = with_condition(conditions, stamped)
    return subject.status.but(conditions=conditions, resource_status=ManifestResourceStatus(manifests=items))


def manifest_conditions(subject: ManifestWork, work: Work, view: View) -> Iterator[ManifestCondition]:
    """The condition of each object, in the order of the manifests; completed ones are kept after their deletion."""
    found = {item.resource_meta.ordinal: item for item in reported_conditions(subject, work, view)}
    wanted = [resource_identifier(manifest) for manifest in subject.spec.workload.manifests]
    for item in subject.status.resource_status.manifests:
        ordinal = item.resource_meta.ordinal
        there = ordinal < len(wanted) and wanted[ordinal] == identifier_of(item)
        if there and ordinal not in found and is_complete(item):
            found[ordinal] = item
    return (found[ordinal] for ordinal in sorted(found))


def reported_conditions(subject: ManifestWork, work: Work, view: View) -> Iterator[ManifestCondition]:
    return (manifest_condition(subject, status, view) for status in work.status.manifest_statuses)


def is_outdated(condition: Condition, subject: ManifestWork, work: Work, view: View) -> bool:
    """Whether this is the Progressing condition of an earlier generation: the new one starts its own time."""
    newer = condition.type == "Progressing" and not is_current(condition, subject)
    return newer and has_current_generation(subject, work, view)


def conditions_of(subject: ManifestWork, work: Work, view: View) -> Iterator[Condition]:
    """The conditions of the current generation; none until the member has it."""
    applied = find_condition(work.status.conditions, "Applied")
    if applied is None or not has_current_generation(subject, work, view):
        return
    there = applied.status == "True"
    yield Condition(
        type="Applied",
        status=applied.status,
        reason="AppliedManifestWorkComplete" if there else "AppliedManifestWorkFailed",
        message="Apply manifest work complete" if there else applied.message,
    )
    health = {health_of(subject, status, view) for status in work.status.manifest_statuses}
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
        message="All resources are up to date" if settled else "Some resources are not up to date yet",
    )
    degraded = "Unhealthy" in health and has_been_healthy(subject)
    yield Condition(
        type="Degraded",
        status="True" if degraded else "False",
        reason="ResourcesUnhealthy" if degraded else "ResourcesHealthy",
        message="Some resources are unhealthy" if degraded else "All resources are healthy",
    )


def has_been_healthy(subject: ManifestWork) -> bool:
    """Whether this generation was healthy once: only then can it be degraded, before it is still starting."""
    before = {one.type: one.status for one in subject.status.conditions if is_current(one, subject)}
    return before.get("Progressing") == "False" or before.get("Degraded") == "True"


def is_current(condition: Condition, subject: ManifestWork) -> bool:
    return condition.observed_generation == subject.metadata.generation


def has_current_generation(subject: ManifestWork, work: Work, view: View) -> bool:
    """Whether the member's objects, as far as they are cached here, are of the current generation."""
    for manifest in work.spec.workload.manifests:
        if well_known.annotations_of(manifest).get(well_known.UPDATE_STRATEGY) in (
            "CreateOnly",
            "ReadOnly",
            "Completed",
        ):
            continue
        seen = view.member(subject.namespace, well_known.ref_without_uid(manifest))
        if seen is None:
            return False
        if isinstance(seen, NotFetched):
            continue
        if well_known.annotations_of(seen).get(well_known.TEMPLATE_GENERATION) != str(subject.metadata.generation):
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
    document = document_of(subject, status, view)
    configs = list(configs_of(subject.spec, identifier_of(ManifestCondition(resource_meta=meta))))
    reported = read_feedback(configs, document)
    rules = [
        one.but(observed_generation=subject.metadata.generation)
        for one in evaluate_condition_rules(configs, document, view.cel)
    ]
    types = {rule.type for rule in rules}
    conditions = tuple(one for one in before.conditions if one.type in types or not is_from_rule(one))
    for condition in (
        Condition(type="Applied", status="True", reason="AppliedManifestComplete"),
        Condition(type="Available", status="True", reason="ResourceAvailable"),
        reported.condition,
        *rules,
    ):
        stamped = condition.but(last_transition_time=view.now.replace(microsecond=0))
        conditions = with_condition(conditions, stamped)
    return ManifestCondition(
        resource_meta=meta, conditions=conditions, status_feedback=StatusFeedback(values=reported.values)
    )


def member_object(subject: ManifestWork, status: ManifestStatus, view: View) -> Raw | None:
    """The object in the member; `None` if it does not exist or is not cached here."""
    known = status.identifier
    version = f"{known.group}/{known.version}".lstrip("/")
    seen = view.member(subject.namespace, Ref(version, known.kind, known.namespace, known.name))
    return None if isinstance(seen, NotFetched) else seen


def health_of(subject: ManifestWork, status: ManifestStatus, view: View) -> str:
    """The health by the object itself; its Work may still report the generation before."""
    seen = member_object(subject, status, view)
    interpreter = view.interpreter
    if seen is None or not interpreter.interprets((seen["apiVersion"], seen["kind"]), Operation.HEALTH):
        return status.health
    try:
        return interpreter.health(seen)
    except InterpreterError:
        return "Unknown"


def document_of(subject: ManifestWork, status: ManifestStatus, view: View) -> Raw:
    """The object in the member; if it is not cached here, its status as the Work reports it."""
    seen = member_object(subject, status, view)
    if seen is not None:
        return seen
    known = status.identifier
    version = f"{known.group}/{known.version}".lstrip("/")
    metadata = {"name": known.name, **({"namespace": known.namespace} if known.namespace else {})}
    return {"apiVersion": version, "kind": known.kind, "metadata": metadata, "status": status.status or {}}


def identifier_of(item: ManifestCondition) -> WorkResourceIdentifier:
    known = item.resource_meta
    return WorkResourceIdentifier(
        group=known.group, resource=known.resource, name=known.name, namespace=known.namespace
    )
