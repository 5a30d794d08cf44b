"""Metrics of flow control."""

from trimtab.server.flowcontrol.classification import Flow, LevelLimits
from trimtab.server.flowcontrol.fair_queues import FairQueues, Ticket
from trimtab.server.flowcontrol.flow_metrics import FlowMetrics
from trimtab.telemetry import METRICS, format_histograms, format_metrics

FLOW = Flow("schema", "", "low", "ann")
LABELS = '{priority_level="low",flow_schema="schema"}'


def test_metrics_have_the_names_of_kubernetes_and_a_help_text() -> None:
    metrics, queues = FlowMetrics(), FairQueues(4, [LevelLimits("low")])
    queues.arrive(Ticket(FLOW))
    metrics.count_start(FLOW, 0.03)
    metrics.count_start(FLOW, 0.0)
    metrics.count_end(FLOW)
    metrics.count_rejection(FLOW, "queue-full", 0.0)
    text = format_metrics(metrics.samples(queues)) + format_histograms(metrics.histograms())
    prefix = "apiserver_flowcontrol_"
    for line in (
        f"{prefix}dispatched_requests_total{LABELS} 2",
        f"{prefix}current_executing_requests{LABELS} 1",
        f"{prefix}current_inqueue_requests{LABELS} 1",
        f'{prefix}rejected_requests_total{{priority_level="low",flow_schema="schema",reason="queue-full"}} 1',
        f'{prefix}nominal_limit_seats{{priority_level="low"}} 4',
        f'{prefix}request_wait_duration_seconds_count{{priority_level="low",flow_schema="schema",execute="true"}} 2',
        (
            f"{prefix}request_wait_duration_seconds_bucket"
            '{priority_level="low",flow_schema="schema",execute="true",le="0.02"} 1'
        ),
    ):
        assert line in text.splitlines()
    for name in (line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")):
        assert METRICS[name].text
        assert f"# HELP {name} " in text
