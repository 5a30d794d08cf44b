import json
import logging
from collections.abc import Iterator

import pytest

from trimtab.telemetry import Histogram, Sample, configure_logging, format_metrics


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger("trimtab")
    before = (root.handlers[:], root.propagate, root.level)
    yield
    root.handlers[:], root.propagate, level = before
    root.setLevel(level)


def test_json_log_has_one_object_per_line_with_the_exception(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(as_json=True)
    try:
        {}["member1"]
    except KeyError:
        logging.getLogger("trimtab.reconciler").exception("could not look at %s", "it")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["msg"]) == ("error", "trimtab.reconciler", "could not look at it")
    assert "KeyError: 'member1'" in line["err"]


def test_verbosity_selects_the_log_level(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("trimtab.schedule")
    for verbosity in range(4):
        configure_logging(verbosity=verbosity)
        log.warning("warned")
        log.info("decided")
        log.debug("thought")
    messages = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    everything = ["warned", "decided", "thought"]
    assert messages == ["warned", "warned", "decided", *everything, *everything]


def test_samples_are_grouped_by_name_under_their_type() -> None:
    samples = [Sample("a_total", 1, {"x": "1"}), Sample("b", 2.5), Sample("a_total", 3, {"x": "2"})]
    assert format_metrics(samples) == (
        '# TYPE a_total counter\na_total{x="1"} 1\na_total{x="2"} 3\n# TYPE b gauge\nb 2.5\n'
    )


def test_a_gauge_whose_name_ends_like_that_of_a_counter_is_declared() -> None:
    assert "# TYPE eviction_kind_total gauge\n" in format_metrics([Sample("eviction_kind_total", 1)])
    assert "# TYPE eviction_processing_total counter\n" in format_metrics([Sample("eviction_processing_total", 1)])


def test_label_values_are_escaped() -> None:
    assert format_metrics([Sample("a", 1, {"x": 'say "\\"\n'})]) == '# TYPE a gauge\na{x="say \\"\\\\\\"\\n"} 1\n'


def test_large_numbers_have_no_exponent() -> None:
    assert format_metrics([Sample("a_total", 123456789012)]).endswith("a_total 123456789012\n")


def test_declared_metrics_have_a_help_text() -> None:
    assert format_metrics([Sample("trimtab_leading", 1)]).startswith(
        "# HELP trimtab_leading 1 if this process is the leader"
    )


def test_histogram_counts_observations_up_to_each_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)
    assert list(histogram.lines("x", {"a": "b"})) == [
        'x_bucket{a="b",le="0.1"} 2',
        'x_bucket{a="b",le="1.0"} 3',
        'x_bucket{a="b",le="+Inf"} 4',
        'x_sum{a="b"} 7.650000',
        'x_count{a="b"} 4',
    ]


def test_fields_of_a_message_are_fields_of_the_json_line_and_the_end_of_a_text_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logging.getLogger("trimtab.reconciler")
    fields = {"controller": "execute", "object": "Work demo/web", "cluster": "m1", "move": "demo/web.1.m1"}
    configure_logging(as_json=True)
    log.warning("refused: %s", "full", extra=fields)
    line = json.loads(capsys.readouterr().err)
    assert {name: line[name] for name in fields} == fields
    assert set(line) == {"ts", "level", "logger", "msg", *fields}
    configure_logging()
    log.warning("refused: %s", "full", extra=fields)
    expected = "refused: full controller=execute object=Work demo/web cluster=m1 move=demo/web.1.m1\n"
    assert capsys.readouterr().err.endswith(expected)
