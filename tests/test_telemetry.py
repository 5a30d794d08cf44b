import json
import logging
from collections.abc import Iterator

import pytest

from trimtab.telemetry import Sample, exposition, speak


@pytest.fixture(autouse=True)
def silence_afterwards() -> Iterator[None]:
    root = logging.getLogger("trimtab")
    before = (root.handlers[:], root.propagate, root.level)
    yield
    root.handlers[:], root.propagate, level = before
    root.setLevel(level)


def test_machines_get_one_object_per_line_with_the_reason_of_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    speak(as_json=True)
    try:
        {}["member1"]
    except KeyError:
        logging.getLogger("trimtab.beat").exception("could not look at %s", "it")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["msg"]) == ("error", "trimtab.beat", "could not look at it")
    assert "KeyError: 'member1'" in line["err"]


def test_people_hear_warnings_and_more_when_they_ask_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("trimtab.schedule")
    for verbosity in range(4):
        speak(verbosity=verbosity)
        log.warning("warned")
        log.info("decided")
        log.debug("thought")
    said = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    everything = ["warned", "decided", "thought"]
    assert said == ["warned", "warned", "decided", *everything, *everything]


def test_samples_of_one_name_stand_together_under_their_type() -> None:
    samples = [Sample("a_total", 1, {"x": "1"}), Sample("b", 2.5), Sample("a_total", 3, {"x": "2"})]
    assert exposition(samples) == (
        '# TYPE a_total counter\na_total{x="1"} 1\na_total{x="2"} 3\n# TYPE b gauge\nb 2.5\n'
    )


def test_whatever_stands_in_a_label_stays_in_its_line() -> None:
    assert exposition([Sample("a", 1, {"x": 'say "\\"\n'})]) == '# TYPE a gauge\na{x="say \\"\\\\\\"\\n"} 1\n'


def test_large_numbers_are_written_out() -> None:
    assert exposition([Sample("a_total", 123456789012)]).endswith("a_total 123456789012\n")
