"""What kube-apiserver rejects in Events of the core group and of events.k8s.io."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import invalid, required
from trimtab.api.names import qualified_name_faults
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


def check_event(new: Raw, old: Raw | None) -> Sequence[Cause]:
    return list(_check_event_fields(new, "involvedObject", "reportingComponent", "message"))


def _check_event_fields(event: Raw, subject_field: str, controller_field: str, message_field: str) -> Iterator[Cause]:
    """The rules of both event groups; an event with an eventTime has the newer form and more required fields."""
    namespace = event["metadata"].get("namespace", "")
    subject_namespace = (event.get(subject_field) or {}).get("namespace", "")
    is_newer_form = event.get("eventTime")
    namespaces_of_cluster_scoped = ("default", "kube-system") if is_newer_form else ("", "default")
    if (not subject_namespace and namespace not in namespaces_of_cluster_scoped) or (
        subject_namespace and subject_namespace != namespace and not is_newer_form
    ):
        yield invalid("involvedObject.namespace", subject_namespace, "does not match event.namespace")
    if not is_newer_form:
        return
    reporter = event.get(controller_field, "")
    if not reporter:
        yield required(controller_field)
    for fault in qualified_name_faults(reporter):
        yield invalid(controller_field, reporter, fault)
    for name in ("reportingInstance", "action", "reason"):
        if not event.get(name):
            yield required(name)
        elif len(event[name]) > 128:
            yield invalid(name, "", "can have at most 128 characters")
    if len(event.get(message_field, "")) > 1024:
        yield invalid("message", "", "can have at most 1024 characters")


_DEPRECATED_FIELDS = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def check_event_v1(new: Raw, old: Raw | None) -> Sequence[Cause]:
    found = list(_check_event_fields(new, "regarding", "reportingController", "note"))
    if old is not None:
        return found
    if not new.get("eventTime"):
        found.append(required("eventTime"))
    if new.get("type") not in ("Normal", "Warning"):
        found.append(invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    for key, name in _DEPRECATED_FIELDS.items():
        if new.get(key):
            found.append(invalid(name, "", "needs to be unset"))
    if any(object_at(new, "deprecatedSource").values()):
        found.append(invalid("source", "", "needs to be unset"))
    return found
