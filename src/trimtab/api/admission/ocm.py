"""Defaulting and validation of clusters and cluster sets, as in Open Cluster Management's registration webhooks."""

from collections.abc import Iterator
from datetime import UTC, datetime

from trimtab.api.admission.requirements import LiveNamespace, RequiredAccess, Requirement
from trimtab.api.names import label_faults
from trimtab.api.paths import indexed_objects, object_at, objects_at, string_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import BadRequest, Cause

GROUP = "cluster.open-cluster-management.io"
REGISTER_GROUP = "register.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"
_RECENT_SECONDS = 10.0


def add_default_set_label(cluster: Raw) -> Raw:
    """Adds the label of the default cluster set to a cluster without a set."""
    if value_at(cluster, "metadata", "labels", SET_LABEL):
        return cluster
    return with_value(cluster, {**object_at(cluster, "metadata", "labels"), SET_LABEL: "default"}, "metadata", "labels")


def stamp_taints(cluster: Raw, old: Raw | None, now: datetime) -> Raw:
    """Sets `timeAdded` of new and changed taints: the `tolerationSeconds` of Placements count from it.

    Users cannot choose the time. On create what they send is replaced; on update it is refused, unless it is the stored
    time of an unchanged taint.
    """
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stored = {_taint_identity(taint): taint for taint in objects_at(old, "spec", "taints")}
    taints, refused = [], []
    for taint in objects_at(cluster, "spec", "taints"):
        before = stored.get(_taint_identity(taint))
        is_stamped = old is None or (before is None and not taint.get("timeAdded"))
        if not is_stamped and _time_of(taint) != _time_of(before or {}):
            refused.append(string_at(taint, "key"))
        taints.append({**taint, "timeAdded": stamp} if is_stamped else taint)
    if refused:
        raise BadRequest(f'It is not allowed to set TimeAdded of Taint "{",".join(refused)}".')
    return cluster if taints == value_at(cluster, "spec", "taints") or not taints else _with_taints(cluster, taints)


def without_recent_stamps(cluster: Raw, old: Raw | None, now: datetime) -> Raw:
    """The cluster without the times of this moment on taints that are not stored.

    An API server may call a webhook twice for one request: the second call gets the times that the first has set.
    """
    stored = {_taint_identity(taint) for taint in objects_at(old, "spec", "taints")}
    taints = objects_at(cluster, "spec", "taints")
    if all(_taint_identity(taint) in stored or not _is_recent(taint, now) for taint in taints):
        return cluster
    return _with_taints(
        cluster,
        [
            {**taint, "timeAdded": None} if _taint_identity(taint) not in stored and _is_recent(taint, now) else taint
            for taint in taints
        ],
    )


def stamp_unset_taints(cluster: Raw, old: Raw | None, now: datetime) -> Raw:
    """Sets `timeAdded` where it is missing: for writes of administrators, and where no webhook did it."""
    taints = objects_at(cluster, "spec", "taints")
    if all(taint.get("timeAdded") for taint in taints):
        return cluster
    stored = {_taint_identity(taint): taint.get("timeAdded") for taint in objects_at(old, "spec", "taints")}
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    times = [taint.get("timeAdded") or stored.get(_taint_identity(taint)) or stamp for taint in taints]
    return _with_taints(cluster, [{**taint, "timeAdded": time} for taint, time in zip(taints, times, strict=True)])


def _with_taints(cluster: Raw, taints: list[Raw]) -> Raw:
    return with_value(cluster, taints, "spec", "taints")


def _taint_identity(taint: Raw) -> tuple[str, str, str]:
    return string_at(taint, "key"), string_at(taint, "value"), string_at(taint, "effect")


def _is_recent(taint: Raw, now: datetime) -> bool:
    time = _time_of(taint)
    return time is not None and time.tzinfo is not None and abs((now - time).total_seconds()) <= _RECENT_SECONDS


def _time_of(taint: Raw) -> datetime | None:
    try:
        return datetime.fromisoformat(string_at(taint, "timeAdded"))
    except ValueError:
        return None


def check_managed_cluster(cluster: Raw, old: Raw | None) -> list[Cause]:
    """The rules apply only to clusters with client configurations, as upstream."""
    configs = list(indexed_objects(value_at(cluster, "spec", "managedClusterClientConfigs")))
    name = string_at(cluster, "metadata", "name")
    causes = []
    if configs and (faults := label_faults(name)):
        text = f"metadata.name format is not correct: {','.join(faults)}"
        causes.append(Cause("FieldValueInvalid", text, "metadata.name"))
    for i, config in configs:
        url = string_at(config, "url")
        if not url.startswith("https:"):
            field = f"spec.managedClusterClientConfigs[{i}].url"
            causes.append(Cause("FieldValueInvalid", f'url "{url}" is invalid in client configs', field))
    return causes


def managed_cluster_requirements(cluster: Raw, old: Raw | None) -> list[Requirement]:
    """Who accepts a cluster, or moves it between sets, needs a permission for that."""
    found: list[Requirement] = []
    if _is_accepted(cluster) and not _is_accepted(old):
        found += _acceptance_requirements(string_at(cluster, "metadata", "name"))
    return [*found, *_set_requirements(_set_of(old), _set_of(cluster))]


def _is_accepted(cluster: Raw | None) -> bool:
    return bool(value_at(cluster, "spec", "hubAcceptsClient"))


def _set_of(cluster: Raw | None) -> str:
    return string_at(cluster, "metadata", "labels", SET_LABEL)


def _acceptance_requirements(name: str) -> Iterator[Requirement]:
    subject = f'managedclusters/accept.{GROUP} "{name}"'
    yield LiveNamespace(name, f'cluster namespace "{name}" is terminating', subject)
    message = 'user "{user}" cannot update the HubAcceptsClient field'
    yield RequiredAccess("update", REGISTER_GROUP, "managedclusters", "accept", name, "", message, subject)


def _set_requirements(before: str, after: str) -> Iterator[Requirement]:
    for name in (before, after) if before != after else ():
        if name:
            subject = f'managedclustersets/join.{GROUP} "{name}"'
            message = f'user "{{user}}" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{name}"'
            yield RequiredAccess("create", GROUP, "managedclustersets", "join", name, "", message, subject)


def check_set_binding(binding: Raw, old: Raw | None) -> list[Cause]:
    if value_at(binding, "spec", "clusterSet") == value_at(binding, "metadata", "name"):
        return []
    text = "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    return [Cause("FieldValueInvalid", text, "spec.clusterSet")]


def set_binding_requirements(binding: Raw, old: Raw | None) -> list[Requirement]:
    """Who gives a namespace the clusters of a set needs a permission for the set."""
    if old is not None:
        return []
    name = string_at(binding, "spec", "clusterSet")
    subject = f'managedclustersets/bind.{GROUP} "{name}"'
    message = f'user "{{user}}" is not allowed to bind cluster set "{name}"'
    return [RequiredAccess("create", GROUP, "managedclustersets", "bind", name, "", message, subject)]
