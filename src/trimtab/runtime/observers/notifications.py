"""Notifications: CloudEvents about moves, blocked moves, failovers and clusters, from changes in the cache.

    dev.trimtab.move.started, .finished         a voluntary move; the outcome is in the data
    dev.trimtab.failover.started, .finished     a move because a cluster or the application failed
    dev.trimtab.move.blocked                    a move that a budget or a lack of capacity holds up, with the reason
    dev.trimtab.move.approval-required          a move that waits for a person
    dev.trimtab.cluster.ready, .notready        the readiness of a cluster changed

What the cache holds when the process starts is history and is not sent. An event has an id that is derived from the object and
its state, so a receiver can drop one that was sent twice, such as after a change of the leader.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Object
from trimtab.clock import Clock, timestamp
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.movement.binding_moves import stalled_condition_of
from trimtab.runtime.cache import Cache, CacheEntry

PREFIX = "dev.trimtab"
FAILOVERS = ("ClusterFailover", "ApplicationFailover")
Event = Mapping[str, Any]


class Notification(NamedTuple):
    """What happened to one object."""

    type: str
    subject: str
    state: str
    """Distinguishes the events about one object: it becomes part of the id."""
    data: Mapping[str, Any]


def notifications_about(old: Object | None, new: Object) -> Iterator[Notification]:
    """The notifications of one change. Pure."""
    if isinstance(new, Move):
        yield from _about_move(cast("Move | None", old), new)
    elif isinstance(new, Binding) and isinstance(old, Binding):
        yield from _about_binding(old, new)
    elif isinstance(new, Cluster) and isinstance(old, Cluster):
        yield from _about_cluster(old, new)


def _about_move(old: Move | None, new: Move) -> Iterator[Notification]:
    word = "failover" if new.spec.cause in FAILOVERS else "move"
    workload = new.spec.object
    subject = "/".join(part for part in (workload.kind, workload.namespace, workload.name) if part)
    data = {
        "workload": {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name},
        "cause": new.spec.cause,
        "from": new.spec.from_,
        "to": [{"cluster": target.name, "replicas": target.replicas} for target in new.spec.to],
        "replicas": new.spec.replicas,
        "mode": new.spec.mode,
        "budgets": [f"{use.namespace}/{use.name}" for use in new.spec.budgets],
        "message": new.spec.message,
    }
    if old is None:
        yield Notification(f"{PREFIX}.{word}.started", subject, "started", data)
    if new.status.outcome and (old is None or old.status.outcome != new.status.outcome):
        ended = {**data, "outcome": new.status.outcome, "result": new.status.message}
        yield Notification(f"{PREFIX}.{word}.finished", subject, new.status.outcome, ended)


def _about_binding(old: Binding, new: Binding) -> Iterator[Notification]:
    resource = new.spec.resource
    workload = {"kind": resource.kind, "namespace": resource.namespace, "name": resource.name}
    subject = "/".join(part for part in workload.values() if part)
    pending = new.status.pending_approval
    if pending is not None and pending != old.status.pending_approval:
        clusters = [{"cluster": target.name, "replicas": target.replicas} for target in pending.clusters]
        data = {"workload": workload, "cause": pending.cause, "clusters": clusters}
        state = f"approval {pending.since}"
        yield Notification(f"{PREFIX}.move.approval-required", subject, state, data)
        return
    before, after = stalled_condition_of(old), stalled_condition_of(new)
    if after is None or pending is not None or (before is not None and before.reason == after.reason):
        return
    data = {"workload": workload, "reason": after.reason, "message": after.message}
    state = f"{after.reason} {after.last_transition_time}"
    yield Notification(f"{PREFIX}.move.blocked", subject, state, data)


def _about_cluster(old: Cluster, new: Cluster) -> Iterator[Notification]:
    was, ready = (is_condition_true(cluster.status.conditions, "Ready") for cluster in (old, new))
    if was == ready:
        return
    condition = next((c for c in new.status.conditions if c.type == "Ready"), None)
    since = condition.last_transition_time if condition is not None else None
    data = {"cluster": new.name, "region": new.spec.region, "message": condition.message if condition else ""}
    yield Notification(f"{PREFIX}.cluster.{'ready' if ready else 'notready'}", f"Cluster/{new.name}", str(since), data)


def cloud_event(notification: Notification, uid: str, source: str, now: datetime) -> Event:
    """The notification as a CloudEvent 1.0 in the structured JSON form."""
    return {
        "specversion": "1.0",
        "id": f"{uid}/{notification.type.rpartition('.')[2]}/{notification.state}".replace(" ", "-"),
        "source": source,
        "type": notification.type,
        "subject": notification.subject,
        "time": timestamp(now),
        "datacontenttype": "application/json",
        "data": dict(notification.data),
    }


class Notifier:
    """Sends an event for every change of moves, bindings and clusters that is worth one."""

    def __init__(self, cache: Cache, clock: Clock, send: Callable[[Event], None], source: str) -> None:
        self._cache = cache
        self._clock = clock
        self._send = send
        self._source = source
        self._watched = False

    def watch(self) -> None:
        """Observe changes from now on, in the caches that the controllers use."""
        for type_ in (Move, ResourceBinding, ClusterResourceBinding, Cluster):
            if table := self._cache.find_table(kind_of(type_).id):
                table.add_listener(self._notify_about_change)
        self._watched = True

    def _notify_about_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if not self._watched or new is None:
            return
        thing = new.typed
        for notification in notifications_about(old.typed if old is not None else None, thing):
            self._send(cloud_event(notification, thing.metadata.uid, self._source, self._clock.now()))
