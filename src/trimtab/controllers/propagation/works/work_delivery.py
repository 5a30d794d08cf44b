"""Plans the write that one manifest of a Work needs in its member, by its update strategy."""

from datetime import datetime
from typing import Any, NamedTuple

import orjson

from trimtab.api.jsonpath import InvalidJSONPath
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Work
from trimtab.api.value import Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Ensure, Fetch, NotFetched, Ref, RememberInProcess, Topic, View
from trimtab.controllers.propagation.works.member_object import is_sent, matches_last_write, with_member_fields
from trimtab.controllers.propagation.works.object_ownership import (
    foreign_control_plane,
    is_managed,
    ownership_problem,
    with_control_plane,
)
from trimtab.interpret.ignore_fields import with_ignored_fields
from trimtab.interpret.operations import InterpreterError

READ_INTERVAL_SECONDS = 30.0
"""How old a fetched object with the strategy ReadOnly may be."""
FETCHED: Topic[tuple[str, Ref], datetime] = Topic("fetched")
CREATE_ONLY, READ_ONLY, SERVER_SIDE_APPLY, COMPLETED = "CreateOnly", "ReadOnly", "ServerSideApply", "Completed"


def strategy_of(manifest: Raw) -> str:
    return well_known.annotations_of(manifest).get(well_known.UPDATE_STRATEGY, "")


class ManifestDelivery(NamedTuple):
    """The state of one manifest in the member, and the write it needs."""

    ref: Ref
    manifest: Raw
    seen: Raw | None
    write: Ensure | None
    problem: str
    remember: RememberInProcess[Any, Any] | None = None
    fetch: Fetch | None = None
    """The object has to be fetched first."""


def plan_delivery(work: Work, manifest: Raw, cluster: Cluster, view: View) -> ManifestDelivery:
    """The write that one manifest needs, given the object in the member and the update strategy."""
    ref = well_known.ref_without_uid(manifest)
    name = cluster.name
    strategy, seen = strategy_of(manifest), view.member(name, ref)
    if strategy == READ_ONLY:
        return read_only_delivery(ref, manifest, seen, cluster, view)
    if isinstance(seen, NotFetched) and is_reported_as_applied(work):
        # After a start or a takeover: most objects are there as wanted, and a create for each would only be refused.
        return ManifestDelivery(ref, manifest, None, None, "", fetch=Fetch(name, ref))
    there = None if isinstance(seen, NotFetched) else seen
    if (
        strategy == COMPLETED
        or (strategy == CREATE_ONLY and there is not None)
        or is_shared_namespace(ref, there, view)
    ):
        return ManifestDelivery(ref, manifest, there, None, "")
    if there is not None and (problem := ownership_problem(work, manifest, ref, there, name, view)):
        return ManifestDelivery(ref, manifest, there, None, problem)
    manifest = with_control_plane(manifest, work, view)
    if strategy == SERVER_SIDE_APPLY:
        try:
            return ManifestDelivery(
                ref, manifest, there, server_side_apply(with_adoption_mark(manifest, there, view), there), ""
            )
        except InvalidJSONPath as fault:
            return ManifestDelivery(ref, manifest, there, None, str(fault))
    if isinstance(seen, NotFetched) or seen is None:
        return ManifestDelivery(ref, manifest, None, Ensure(manifest), "")
    if not is_managed(seen) and well_known.annotations_of(manifest).get(well_known.CONFLICT_RESOLUTION) != "overwrite":
        problem = (
            f"resource(kind={ref.kind}, {ref.namespace}/{ref.name}) already exists in the cluster {name} and the "
            f"{well_known.CONFLICT_RESOLUTION} strategy value is empty, Karmada will not manage this resource"
        )
        return ManifestDelivery(ref, manifest, seen, None, problem)
    try:
        wanted = with_member_fields(with_adoption_mark(manifest, seen, view), seen, view.interpreter)
    except InterpreterError as fault:
        return ManifestDelivery(ref, manifest, seen, None, str(fault))
    same, memory = matches_last_write(name, ref, wanted, seen, view)
    if same:
        return ManifestDelivery(ref, manifest, seen, None, "", memory)
    recheck = not is_sent(name, ref, wanted, view)
    write = Ensure(wanted, seen=seen, replace=True, recheck_if_unchanged=recheck)
    return ManifestDelivery(ref, manifest, seen, write, "", memory)


def is_reported_as_applied(work: Work) -> bool:
    return any(condition.type == "Applied" and condition.status == "True" for condition in work.status.conditions)


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
) -> ManifestDelivery:
    """A ReadOnly object: it may be unmanaged, and those are not watched, so it is fetched at intervals."""
    fetched = view.recall(FETCHED, (cluster.name, ref))
    if fetched is None or (view.steady_now - fetched).total_seconds() >= READ_INTERVAL_SECONDS:
        memory = RememberInProcess(FETCHED, (cluster.name, ref), view.steady_now)
        return ManifestDelivery(ref, manifest, None, None, "", memory, Fetch(cluster.name, ref))
    if isinstance(seen, NotFetched) or seen is None:
        problem = f"{ref.kind} {well_known.qualified_name(ref)} has update strategy ReadOnly but does not exist"
        return ManifestDelivery(ref, manifest, None, None, problem)
    return ManifestDelivery(ref, manifest, seen, None, "")


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
