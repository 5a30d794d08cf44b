"""Logging and metrics of a process."""

import json
import logging
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from trimtab import __version__
from trimtab.build_info import built_commit

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What the call gave as `extra`: controller, object, cluster, move and others."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}


class TextFormatter(logging.Formatter):
    """Formats a log record as a line for people, with its fields at the end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides a method of the library
        fields = "".join(f" {name}={value}" for name, value in _fields_of(record).items())
        return super().formatMessage(record) + fields


class JsonFormatter(logging.Formatter):
    """Formats a log record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line |= {name: value for name, value in _fields_of(record).items() if name not in line}
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(*, verbosity: int = 0, as_json: bool = False) -> None:
    """Log to standard error: warnings; with verbosity 1 also info, with 2 also debug messages."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger("trimtab")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])


_START_TIME = time.time()
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Sample(NamedTuple):
    """One metric value; a name that ends in `_total` is a counter, unless it is declared as a gauge."""

    name: str
    value: float
    labels: Mapping[str, str] = _NO_LABELS


class Histogram:
    """Counts of observations by upper bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        """The series in the Prometheus text format."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f"{name}_bucket{_format_labels({**labels, 'le': str(bound)})} {total}"
        yield f"{name}_sum{_format_labels(labels)} {self._sum:.6f}"
        yield f"{name}_count{_format_labels(labels)} {total}"


HistogramSeries = tuple[str, Mapping[str, str], Histogram]
"""The name and the labels of a histogram."""


class Metric(NamedTuple):
    """The declaration of a metric."""

    name: str
    text: str
    labels: tuple[str, ...] = ()
    is_gauge: bool = False
    """A gauge in spite of its name, which Karmada gave it."""


_TABLE = (
    Metric("apiserver_request_total", "Requests answered by the embedded API server.", ("verb", "code")),
    Metric("apiserver_request_duration_seconds", "Histogram of the time to answer a request.", ("le",)),
    Metric("apiserver_longrunning_requests", "Open watch requests.", ("verb",)),
    Metric("apiserver_audit_event_total", "Audit events written to the audit log."),
    Metric("apiserver_audit_error_total", "Audit events that were lost."),
    Metric("apiserver_storage_objects", "Stored objects.", ("resource",)),
    Metric(
        "apiserver_flowcontrol_dispatched_requests_total",
        "Requests that flow control let run.",
        ("priority_level", "flow_schema"),
    ),
    Metric(
        "apiserver_flowcontrol_rejected_requests_total",
        "Requests that flow control rejected with 429.",
        ("priority_level", "flow_schema", "reason"),
    ),
    Metric(
        "apiserver_flowcontrol_current_inqueue_requests",
        "Requests that wait for a seat.",
        ("priority_level", "flow_schema"),
    ),
    Metric("apiserver_flowcontrol_current_executing_requests", "Requests that run.", ("priority_level", "flow_schema")),
    Metric("apiserver_flowcontrol_current_executing_seats", "Seats in use.", ("priority_level",)),
    Metric("apiserver_flowcontrol_nominal_limit_seats", "Seats of the level.", ("priority_level",)),
    Metric(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "Histogram of the time that requests waited for a seat.",
        ("priority_level", "flow_schema", "execute", "le"),
    ),
    Metric("trimtab_store_revision", "Newest revision of the store."),
    Metric("trimtab_controller_reconciles_total", "Reconciles.", ("controller",)),
    Metric("trimtab_controller_writes_total", "Writes sent to API servers.", ("controller",)),
    Metric("trimtab_controller_queue_length", "Keys waiting to be reconciled.", ("controller",)),
    Metric(
        "trimtab_controller_queue_age_seconds", "Age of the key that waits longest to be reconciled.", ("controller",)
    ),
    Metric("trimtab_controller_failing_objects", "Keys whose last reconcile failed.", ("controller",)),
    Metric(
        "trimtab_controller_write_duration_seconds",
        "Histogram of the time that the writes of one reconcile took.",
        ("controller", "le"),
    ),
    Metric("trimtab_leading", "1 if this process is the leader, else 0."),
    Metric("trimtab_lease_transitions_total", "How often the Lease of the controllers has changed hands."),
    Metric("trimtab_member_owned", "1 if a process serves the member, 0 if nothing is applied there."),
    Metric("trimtab_owned_members", "The number of members that this process serves."),
    Metric("trimtab_webhook_reviews_total", "Admission reviews, by webhook and result."),
    Metric("trimtab_webhook_review_seconds_total", "Seconds spent on admission reviews, by webhook."),
    Metric("trimtab_webhook_evictions_charged_total", "Charges of budgets for evictions that were allowed."),
    Metric("trimtab_webhook_evictions_refused_total", "Evictions that the budgets refused."),
    Metric("trimtab_webhook_certificate_expiry_seconds", "When the certificate of the webhook ends, as a Unix time."),
    Metric(
        "trimtab_agent_credentials_expiry_seconds",
        "When the certificate or token of the agent for its control plane ends, as a Unix time.",
    ),
    Metric("trimtab_cluster_ready", "1 if the member cluster is ready, else 0.", ("member_cluster",)),
    Metric("trimtab_workloads", "Workloads that a policy selects: all, without placement, not applied.", ("state",)),
    Metric(
        "trimtab_propagation_duration_seconds",
        "Histogram of the time from the first binding of a workload until all its copies are applied.",
        ("le",),
    ),
    Metric("trimtab_moves", "Entries of the move log.", ("outcome",)),
    Metric("trimtab_moves_frozen", "1 while all moves are frozen, else 0."),
    Metric("trimtab_moves_ended_total", "Moves that ended.", ("cause", "outcome")),
    Metric("trimtab_move_duration_seconds", "Histogram of the time that a move took.", ("cause", "le")),
    Metric(
        "trimtab_notifications_total", "Events for the webhook: sent, failed after all attempts, dropped.", ("result",)
    ),
    Metric(
        "trimtab_trace_spans_total",
        "Spans of traces: sent, failed (not accepted by the collector), dropped (queue full), beyond_limit (of one trace).",
        ("result",),
    ),
    Metric("trimtab_oldest_move_age_seconds", "Age of the oldest move in progress; 0 if there is none."),
    Metric("cluster_ready_state", "1 if the cluster is ready, else 0 (Karmada's name).", ("member_cluster",)),
    Metric("cluster_node_number", "Nodes of the cluster (Karmada's name).", ("member_cluster",)),
    Metric("cluster_ready_node_number", "Ready nodes of the cluster (Karmada's name).", ("member_cluster",)),
    *(
        Metric(f"cluster_{resource}_{side}_{unit}", f"{text}, {side} (Karmada's name).", ("member_cluster",))
        for resource, unit, text in (
            ("cpu", "number", "CPUs"),
            ("memory", "bytes", "Memory"),
            ("pod", "number", "Pods"),
        )
        for side in ("allocatable", "allocated")
    ),
    Metric(
        "resource_match_policy_duration_seconds",
        "Histogram of the time to find the policy of a template that no policy has claimed (Karmada's name).",
        ("le",),
    ),
    Metric(
        "resource_apply_policy_duration_seconds",
        "Histogram of the time to apply a policy to a template (Karmada's name).",
        ("result", "le"),
    ),
    Metric("policy_apply_attempts_total", "Attempts to apply a policy to a template (Karmada's name).", ("result",)),
    Metric(
        "karmada_scheduler_e2e_scheduling_duration_seconds",
        "Histogram of the time to decide about a binding and to write the decision (Karmada's name).",
        ("result", "schedule_type", "le"),
    ),
    Metric(
        "karmada_scheduler_scheduling_algorithm_duration_seconds",
        "Histogram of the time of a step of a decision: Filter, Score, Select, AssignReplicas (Karmada's name).",
        ("schedule_step", "le"),
    ),
    Metric(
        "karmada_scheduler_framework_extension_point_duration_seconds",
        "Histogram of the time that all filters or all scores of a decision took (Karmada's name).",
        ("extension_point", "result", "le"),
    ),
    Metric(
        "karmada_scheduler_plugin_execution_duration_seconds",
        "Histogram of the time that a plugin took for all clusters, where its result was not cached (Karmada's name).",
        ("plugin", "extension_point", "result", "le"),
    ),
    Metric(
        "karmada_scheduler_schedule_attempts_total",
        "Decisions about bindings (Karmada's name).",
        ("result", "schedule_type"),
    ),
    Metric(
        "binding_sync_work_duration_seconds",
        "Histogram of the time to write the Works of a binding (Karmada's name).",
        ("result", "le"),
    ),
    Metric(
        "work_sync_workload_duration_seconds",
        "Histogram of the time to apply a Work in its cluster (Karmada's name).",
        ("result", "le"),
    ),
    Metric(
        "cluster_sync_status_duration_seconds",
        "Histogram of the time to read the state of a cluster once (Karmada's name).",
        ("member_cluster", "le"),
    ),
    Metric(
        "karmada_scheduler_queue_incoming_bindings_total",
        "Bindings that were added, changed, or could not be scheduled (Karmada's name).",
        ("event",),
    ),
    *(
        Metric(
            name, f"{text} since the start (Karmada's name).", ("result", "apiversion", "kind", "member_cluster", *more)
        )
        for name, text, more in (
            ("create_resource_to_cluster", "Creations of objects in a cluster", ()),
            ("update_resource_to_cluster", "Updates of objects in a cluster", ("operationResult",)),
            ("delete_resource_from_cluster", "Deletions of objects in a cluster", ()),
        )
    ),
    Metric(
        "eviction_queue_depth",
        "Evictions from tainted clusters that wait until the eviction rate allows them (Karmada's name).",
        ("name",),
    ),
    Metric(
        "eviction_kind_total",
        "Evictions that wait, by cluster and kind of the workload (Karmada's name).",
        ("member_cluster", "resource_kind"),
        is_gauge=True,
    ),
    Metric(
        "eviction_processing_latency_seconds",
        "Histogram of the time to evict a workload from a tainted cluster (Karmada's name).",
        ("name", "le"),
    ),
    Metric(
        "eviction_processing_total",
        "Evictions of workloads from tainted clusters (Karmada's name).",
        ("name", "result"),
    ),
    Metric(
        "federatedhpa_process_duration_seconds",
        "Histogram of the time to process a FederatedHPA (Karmada's name).",
        ("result", "le"),
    ),
    Metric(
        "cronfederatedhpa_process_duration_seconds",
        "Histogram of the time to process a CronFederatedHPA (Karmada's name).",
        ("result", "le"),
    ),
    Metric(
        "trimtab_last_backup_timestamp_seconds",
        "When `trimtab backup` last ended, as a Unix time; missing if it never did.",
    ),
    Metric("trimtab_rescheduler_rounds_total", "Rounds of the rescheduler."),
    Metric("trimtab_rescheduler_moves", "Moves of the last day.", ("outcome",)),
    Metric("trimtab_rescheduler_moves_wasted", "Moves of the last day whose pod got no better node."),
    Metric(
        "trimtab_rescheduler_pods_rejected", "Pods that an objective proposed and a rule rejected in the last round."
    ),
    Metric("trimtab_rescheduler_owners_frozen", "Owners that are not moved any more after repeated wasted moves."),
    Metric("trimtab_rescheduler_configuration_refused", "1 if the current configuration is invalid, else 0."),
    Metric("trimtab_build_info", "1, with the version and the commit of the process.", ("version", "commit")),
    Metric("process_start_time_seconds", "Unix time at which the process started."),
    Metric("process_cpu_seconds_total", "User and system CPU time."),
    Metric("process_resident_memory_max_bytes", "Largest resident set size."),
)
METRICS = {metric.name: metric for metric in _TABLE}


def format_metrics(samples: Iterable[Sample]) -> str:
    """The samples in the Prometheus text format, grouped by name."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, group in by_name.items():
        if name in METRICS:
            lines.append(f"# HELP {name} {METRICS[name].text}")
        is_gauge = not name.endswith("_total") or (name in METRICS and METRICS[name].is_gauge)
        lines.append(f"# TYPE {name} {'gauge' if is_gauge else 'counter'}")
        lines += [f"{name}{_format_labels(sample.labels)} {sample.value:.15g}" for sample in group]
    return "\n".join(lines) + "\n"


def format_histograms(series: Iterable[HistogramSeries]) -> str:
    """The histograms in the Prometheus text format; those of one name come one after the other."""
    lines: list[str] = []
    last = ""
    for name, labels, histogram in series:
        if name != last:
            lines += [f"# HELP {name} {METRICS[name].text}", f"# TYPE {name} histogram"]
            last = name
        lines += histogram.lines(name, labels)
    return "\n".join(lines) + "\n"


def _format_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def process_samples() -> Iterator[Sample]:
    """Metrics that every process exports."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield Sample("trimtab_build_info", 1, {"version": __version__, "commit": built_commit()})
    yield Sample("process_start_time_seconds", round(_START_TIME, 3))
    yield Sample("process_cpu_seconds_total", round(used.ru_utime + used.ru_stime, 3))
    yield Sample("process_resident_memory_max_bytes", used.ru_maxrss * 1024)
