"""Events of the core group and of events.k8s.io, two forms of the same object."""

from datetime import datetime
from typing import Annotated

from trimtab.api.kind import kind
from trimtab.api.kinds.native.rules import event
from trimtab.api.value import MicroTime, Object, Raw, Value


class ObjectReference(Value):
    """A reference to an object, or to a field of it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Value):
    component: str = ""
    host: str = ""


class EventSeries(Value):
    count: int = 0
    last_observed_time: Annotated[datetime | None, MicroTime()] = None


@kind(group="", version="v1", plural="events", short=["ev"], custom=False, validators=[event.check_event])
class Event(Object):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    count: int = 0
    type: str = ""
    event_time: Annotated[datetime | None, MicroTime()] = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


@kind(
    group="events.k8s.io",
    version="v1",
    plural="events",
    short=["ev"],
    custom=False,
    name="Event",
    validators=[event.check_event_v1],
)
class EventV1(Object):
    event_time: Annotated[datetime | None, MicroTime()] = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


_EVENTS_V1_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "source": "deprecatedSource",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENTS_V1_NAMES.items()}


def to_events_v1(raw: Raw) -> Raw:
    """A core event in the form of events.k8s.io."""
    converted = {_EVENTS_V1_NAMES.get(key, key): value for key, value in raw.items()}
    for key in ("reportingController", "reportingInstance"):
        if converted.get(key) == "":
            del converted[key]
    return {**converted, "apiVersion": "events.k8s.io/v1"}


def to_core(raw: Raw) -> Raw:
    """An event of events.k8s.io in the form of the core group."""
    converted = {_CORE_NAMES.get(key, key): value for key, value in raw.items()}
    return {"reportingComponent": "", "reportingInstance": "", **converted, "apiVersion": "v1"}
