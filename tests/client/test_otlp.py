"""Spans reach a collector as OTLP in JSON, in batches; what cannot be sent is counted and holds up nobody."""

import asyncio

import orjson
import pytest

from collector import collecting
from trimtab.client import otlp
from trimtab.client.otlp import Span, SpanExporter, encode_spans, traces_url
from trimtab.errors import InputError

SPAN = Span("0" * 31 + "1", "0" * 15 + "2", "0" * 15 + "3", "detect", 5, 7, {"trimtab.object.name": "web"}, "Conflict")


@pytest.mark.parametrize(
    "endpoint", ["ftp://127.0.0.1", "127.0.0.1:4318", "http://", "http://u:p@collector", "http://[::1", "http://a?b=c"]
)
def test_what_is_no_address_of_a_collector_is_refused(endpoint: str) -> None:
    with pytest.raises(InputError):
        traces_url(endpoint)


def test_path_for_traces_is_added_unless_a_path_is_given() -> None:
    assert traces_url("http://collector:4318") == "http://collector:4318/v1/traces"
    assert traces_url("https://collector/") == "https://collector/v1/traces"
    assert traces_url("https://collector/tenant/v1/traces") == "https://collector/tenant/v1/traces"


def test_span_is_encoded_as_the_protocol_says() -> None:
    [resource] = orjson.loads(encode_spans([SPAN]))["resourceSpans"]
    names = {one["key"]: one["value"]["stringValue"] for one in resource["resource"]["attributes"]}
    assert names["service.name"] == "trimtab"
    assert resource["scopeSpans"][0]["spans"] == [
        {
            "traceId": SPAN.trace_id,
            "spanId": SPAN.span_id,
            "parentSpanId": SPAN.parent_id,
            "name": "detect",
            "kind": 1,
            "startTimeUnixNano": "5",
            "endTimeUnixNano": "7",
            "attributes": [{"key": "trimtab.object.name", "value": {"stringValue": "web"}}],
            "status": {"code": 2, "message": "Conflict"},
        }
    ]


def test_batch_that_is_refused_for_a_moment_is_sent_again() -> None:
    async def main() -> None:
        async with collecting(503) as collector:
            exporter = SpanExporter(collector.endpoint, batch_seconds=0.01, first_delay=0.01)
            exporter.start()
            for number in range(3):
                exporter.export(SPAN._replace(name=str(number)))
            await collector.until(lambda: exporter.counts["sent"])
            await exporter.close()
            assert [span["name"] for span in collector.spans] == ["0", "1", "2"]
            assert collector.paths == ["/v1/traces"] * 2

    asyncio.run(main())


def test_spans_that_the_collector_refuses_are_counted_and_later_ones_are_sent() -> None:
    async def main() -> None:
        async with collecting(400) as collector:
            exporter = SpanExporter(collector.endpoint, batch_seconds=0.01)
            exporter.start()
            exporter.export(SPAN)
            await collector.until(lambda: exporter.counts["failed"])
            exporter.export(SPAN._replace(name="later"))
            await collector.until(lambda: exporter.counts["sent"])
            await exporter.close()
            assert exporter.counts == {"sent": 1, "failed": 1, "dropped": 0}

    asyncio.run(main())


def test_queue_is_bounded_and_what_does_not_fit_is_counted() -> None:
    async def main() -> None:
        exporter = SpanExporter("http://127.0.0.1:9")
        for _ in range(otlp.MAX_QUEUED + 7):
            exporter.export(SPAN)
        assert exporter.counts["dropped"] == 7

    asyncio.run(main())


def test_last_spans_are_sent_when_the_process_ends() -> None:
    async def main() -> None:
        async with collecting() as collector:
            exporter = SpanExporter(collector.endpoint, batch_seconds=3600)
            exporter.start()
            for _ in range(otlp.MAX_BATCH + 1):
                exporter.export(SPAN)
            await exporter.close()
            assert len(collector.spans) == otlp.MAX_BATCH + 1
            assert len(collector.bodies) == 2

    asyncio.run(main())


def test_end_of_the_process_does_not_wait_for_a_collector_that_is_gone() -> None:
    async def main() -> None:
        async with collecting() as collector:
            endpoint = collector.endpoint
        exporter = SpanExporter(endpoint, batch_seconds=3600)
        exporter.start()
        for _ in range(otlp.MAX_BATCH + 1):
            exporter.export(SPAN)
        await exporter.close()
        assert exporter.counts == {"sent": 0, "failed": otlp.MAX_BATCH, "dropped": 1}

    asyncio.run(main())
