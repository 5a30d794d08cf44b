"""What kube-apiserver rejects in workloads: Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, CronJobs."""

from collections.abc import Callable, Iterator, Sequence

from trimtab.api.cron import is_time_zone
from trimtab.api.field_errors import forbidden, invalid, not_supported, required
from trimtab.api.kinds.native.rules import common, cron, pods
from trimtab.api.kinds.native.rules.job_policies import check_job_policies
from trimtab.api.names import label_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_LOCAL_ZONE_TEXT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
_RETENTIONS = ("Retain", "Delete")
_STATEFUL_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE_FIELDS = {
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
}


def _check_selector_and_template(
    spec: Raw, noun: str, *, is_required: bool = True, absent_matches: bool = False
) -> Iterator[Cause]:
    """Check selector and template, and that the labels of the template match a valid selector."""
    faults = list(_check_selector(spec, noun, is_required=is_required))
    yield from faults
    selector, template = spec.get("selector"), object_at(spec, "template")
    labels = object_at(template, "metadata").get("labels")
    matches = absent_matches if selector is None else bool(faults) or common.selector_matches(selector, labels or {})
    if not matches:
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from pods.check_template(template, "spec.template")


def _check_selector(spec: Raw, noun: str, *, is_required: bool) -> Iterator[Cause]:
    selector = spec.get("selector")
    if selector is None:
        if is_required:
            yield required("spec.selector")
        return
    faults = list(common.check_selector(selector, "spec.selector"))
    yield from faults
    if common.is_empty_selector(selector):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {noun}")
    if faults:
        yield invalid("spec.selector", selector, "invalid label selector")


def _check_restart_policy(spec: Raw) -> Iterator[Cause]:
    pod = object_at(spec, "template", "spec")
    policy = pod.get("restartPolicy")
    if policy != "Always":
        yield not_supported("spec.template.spec.restartPolicy", policy or "", ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        yield forbidden(
            "spec.template.spec.activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported"
        )


def _check_not_negative(spec: Raw, *names: str) -> Iterator[Cause]:
    for name in names:
        yield from common.check_not_negative(spec.get(name), f"spec.{name}")


def _check_same_selector(new: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is not None:
        yield from common.check_unchanged(
            object_at(new, "spec").get("selector"), object_at(old, "spec").get("selector"), "spec.selector"
        )


_SpecCheck = Callable[[Raw, Raw | None], Sequence[Cause]]


def _skip_unchanged_spec(check: _SpecCheck) -> _SpecCheck:
    """Skip the check of an unchanged spec: it was checked before, and most writes change status or labels only."""

    def check_changed_spec(new: Raw, old: Raw | None) -> Sequence[Cause]:
        if old is not None and new.get("spec") == old.get("spec"):
            return ()
        return check(new, old)

    return check_changed_spec


@_skip_unchanged_spec
def check_deployment(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found = list(_check_not_negative(spec, "replicas"))
    found += _check_selector_and_template(spec, "deployment", absent_matches=True)
    found += _check_restart_policy(spec)
    found += _check_strategy(object_at(spec, "strategy"))
    found += _check_not_negative(spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        found.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return [*found, *_check_same_selector(new, old)]


def _check_strategy(strategy: Raw) -> Iterator[Cause]:
    field, kind = "spec.strategy", strategy.get("type", "")
    if kind == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            yield forbidden(f"{field}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        rolling = object_at(strategy, "rollingUpdate")
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from common.check_count_or_percent(unavailable, f"{field}.rollingUpdate.maxUnavailable")
        yield from common.check_count_or_percent(surge, f"{field}.rollingUpdate.maxSurge")
        if common.count_or_percent_value(unavailable) == 0 and common.count_or_percent_value(surge) == 0:
            yield invalid(f"{field}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        yield from common.check_at_most_100_percent(unavailable, f"{field}.rollingUpdate.maxUnavailable")
    else:
        yield not_supported(field, _go_strategy(strategy), ["Recreate", "RollingUpdate"])


def _go_strategy(strategy: Raw) -> Raw:
    """A strategy under Go's field names, as kube-apiserver formats it in the error."""
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


@_skip_unchanged_spec
def check_replica_set(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    return [
        *_check_not_negative(spec, "replicas", "minReadySeconds"),
        *_check_selector_and_template(spec, "deployment"),
        *_check_restart_policy(spec),
        *_check_same_selector(new, old),
    ]


@_skip_unchanged_spec
def check_replication_controller(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    labels = spec.get("selector") or {}
    found = [*_check_not_negative(spec, "minReadySeconds"), *common.check_labels(labels, "spec.selector")]
    if not labels:
        found.append(required("spec.selector"))
    found += _check_not_negative(spec, "replicas")
    if spec.get("template") is None:
        return [*found, required("spec.template")]
    template_labels = object_at(spec, "template", "metadata", "labels")
    if labels and not common.selector_matches({"matchLabels": labels}, template_labels):
        text = "`selector` does not match template `labels`"
        found.append(invalid("spec.template.metadata.labels", template_labels, text))
    return [*found, *pods.check_template(spec["template"], "spec.template"), *_check_restart_policy(spec)]


@_skip_unchanged_spec
def check_stateful_set(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = []
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        found.append(invalid("spec.podManagementPolicy", spec.get("podManagementPolicy", ""), text))
    found += _check_stateful_strategy(object_at(spec, "updateStrategy"))
    found += [
        *_check_not_negative(spec, "replicas", "minReadySeconds"),
        *_check_selector_and_template(_with_claim_volumes(spec), "statefulset"),
    ]
    found += _check_restart_policy(spec)
    found += common.check_not_negative(object_at(spec, "ordinals").get("start"), "spec.ordinals.start")
    retention = object_at(spec, "persistentVolumeClaimRetentionPolicy")
    for name in ("whenDeleted", "whenScaled"):
        if retention.get(name) not in (None, *_RETENTIONS):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            found.append(not_supported(where, retention[name], _RETENTIONS))
    if old is not None:
        before = object_at(old, "spec")
        fixed = [{k: v for k, v in part.items() if k not in _STATEFUL_MUTABLE_FIELDS} for part in (spec, before)]
        if fixed[0] != fixed[1]:
            found.append(forbidden("spec", _STATEFUL_TEXT))
    return found


def _with_claim_volumes(spec: Raw) -> Raw:
    """The spec with a volume in its pod template for every claim template, which containers may mount."""
    names = [object_at(one, "metadata").get("name", "") for one in spec.get("volumeClaimTemplates") or ()]
    if not names:
        return spec
    template = object_at(spec, "template")
    pod = object_at(template, "spec")
    present = pod.get("volumes") or []
    taken = {one.get("name") for one in present}
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names if name not in taken]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*present, *added]}}}


def _check_stateful_strategy(strategy: Raw) -> Iterator[Cause]:
    field, kind = "spec.updateStrategy", strategy.get("type", "")
    if not kind:
        yield required(field)
    elif kind == "OnDelete":
        if strategy.get("rollingUpdate") is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            partition = strategy["rollingUpdate"].get("partition", 0)
            yield invalid(f"{field}.rollingUpdate", {"Partition": partition, "MaxUnavailable": None}, text)
    elif kind == "RollingUpdate":
        partition = object_at(strategy, "rollingUpdate").get("partition")
        yield from common.check_not_negative(partition, f"{field}.rollingUpdate.partition")
    else:
        yield invalid(field, _go_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")


@_skip_unchanged_spec
def check_daemon_set(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found: list[Cause] = [
        *_check_selector_and_template(spec, "daemonset", is_required=False),
        *_check_restart_policy(spec),
    ]
    found += _check_not_negative(spec, "minReadySeconds", "revisionHistoryLimit")
    strategy = object_at(spec, "updateStrategy")
    if strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        choices = ["RollingUpdate", "OnDelete"]
        found.append(not_supported("spec.updateStrategy", _go_strategy(strategy), choices))
    elif strategy["type"] == "RollingUpdate":
        rolling, field = object_at(strategy, "rollingUpdate"), "spec.updateStrategy.rollingUpdate"
        found += common.check_count_or_percent(rolling.get("maxUnavailable"), f"{field}.maxUnavailable")
        found += common.check_count_or_percent(rolling.get("maxSurge"), f"{field}.maxSurge")
        if (
            common.count_or_percent_value(rolling.get("maxUnavailable")) == 0
            and common.count_or_percent_value(rolling.get("maxSurge")) == 0
        ):
            found.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return [*found, *_check_same_selector(new, old)]


def check_job_spec(spec: Raw, field: str) -> Iterator[Cause]:
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        yield from common.check_not_negative(spec.get(name), f"{field}.{name}")
    mode = spec.get("completionMode")
    if mode is not None:
        yield from common.check_one_of(mode, ("NonIndexed", "Indexed"), f"{field}.completionMode")
    if mode == "Indexed" and spec.get("completions") is None:
        yield required(f"{field}.completions", 'when completion mode is "Indexed"')
    yield from check_job_policies(spec, field)
    if spec.get("manualSelector") and spec.get("selector") is None:
        yield required(f"{field}.selector")
    yield from pods.check_template(object_at(spec, "template"), f"{field}.template")
    if spec.get("manualSelector"):
        labels = object_at(spec, "template", "metadata").get("labels")
        if not common.selector_matches(
            spec.get("selector") or {"matchExpressions": [{"operator": "In"}]}, labels or {}
        ):
            text = "`selector` does not match template `labels`"
            yield invalid(f"{field}.template.metadata.labels", labels, text)
    policy = object_at(spec, "template", "spec").get("restartPolicy")
    if policy == "Always":
        yield required(f"{field}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(f"{field}.template.spec.restartPolicy", policy or "", ["OnFailure", "Never"])


_JOB_IMMUTABLE_FIELDS = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_SCHEDULING_METADATA = ("labels", "annotations")
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


@_skip_unchanged_spec
def check_job(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    found = list(check_job_spec(spec, "spec"))
    if old is None:
        return [*found, *_check_names_of_indexes(new)]
    before = object_at(old, "spec")
    found += _check_completions(spec, before)
    for name in _JOB_IMMUTABLE_FIELDS:
        found += common.check_unchanged(spec.get(name), before.get(name), f"spec.{name}")
    is_schedulable = before.get("suspend") and not object_at(old, "status").get("startTime")
    templates = [object_at(one, "template") for one in (spec, before)]
    if is_schedulable:
        templates = [_without_scheduling(template) for template in templates]
    if templates[0] != templates[1]:
        found.append(invalid("spec.template", spec.get("template"), common.IMMUTABLE))
    return found


def _check_names_of_indexes(job: Raw) -> Iterator[Cause]:
    """The last pod of an indexed job has the longest host name; it must be one."""
    spec, name = object_at(job, "spec"), object_at(job, "metadata").get("name", "")
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not completions:
        return
    last = f"{name}-{completions - 1}"
    if any(label_faults(last)):
        yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")


def _check_completions(spec: Raw, before: Raw) -> Iterator[Cause]:
    """Completions of an indexed job may change together with its parallelism."""
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        yield from common.check_unchanged(completions, before.get("completions"), "spec.completions")
    elif completions not in (None, before.get("completions"), spec.get("parallelism")):
        yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _without_scheduling(template: Raw) -> Raw:
    """The template without what a suspended job that has not started may change: where its pods may run."""
    metadata = {key: value for key, value in object_at(template, "metadata").items() if key not in _SCHEDULING_METADATA}
    spec = {key: value for key, value in object_at(template, "spec").items() if key not in _SCHEDULING_FIELDS}
    affinity = {key: value for key, value in object_at(spec, "affinity").items() if key != "nodeAffinity"}
    return {**template, "metadata": metadata, "spec": {**spec, "affinity": affinity}}


def _check_time_zone(spec: Raw, before: Raw) -> Sequence[Cause]:
    """A time zone that the database of this machine knows; one that is stored stays valid."""
    zone = spec.get("timeZone")
    if zone is None or zone == before.get("timeZone"):
        return []
    if not zone:
        return [invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        return [invalid("spec.timeZone", zone, _LOCAL_ZONE_TEXT)]
    return [] if is_time_zone(zone) else [invalid("spec.timeZone", zone, f"unknown time zone {zone}")]


def _check_schedule(spec: Raw, before: Raw) -> Iterator[Cause]:
    """The schedule; one with a time zone in it is allowed only where it is stored."""
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
        return
    if fault := cron.schedule_error(cron.without_time_zone(schedule)):
        yield invalid("spec.schedule", schedule, fault)
    if "TZ" in schedule:
        if "TZ" not in before.get("schedule", ""):
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            yield invalid("spec.schedule", schedule, text)
        elif spec.get("timeZone") is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            yield invalid("spec.schedule", schedule, text)


@_skip_unchanged_spec
def check_cron_job(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec, name = object_at(new, "spec"), object_at(new, "metadata").get("name", "")
    found = list(_check_schedule(spec, object_at(old or {}, "spec")))
    found += _check_time_zone(spec, object_at(old or {}, "spec"))
    found += _check_not_negative(spec, "startingDeadlineSeconds")
    found += common.check_one_of(
        spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"), "spec.concurrencyPolicy"
    )
    found += check_job_spec(object_at(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    found += _check_not_negative(spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    if old is None and len(name) > 52:
        found.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    return found


def check_pod_template_object(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return list(pods.check_template(object_at(new, "template"), "template"))


def check_controller_revision(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found = list(common.check_not_negative(new.get("revision", 0), "revision"))
    if new.get("data") is None:
        return [*found, required("data", "data is mandatory")]
    if old is not None and old.get("data") != new["data"]:
        found.append(invalid("data", new["data"], common.IMMUTABLE))
    return found
