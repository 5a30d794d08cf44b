"""Processes that wait for input."""

import random

import pytest

from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.process import MAX_LOG_LINES, ContainerLog, Process
from trimtab.simulate.containers.programs import ContainerContext, find_launch
from trimtab.simulate.containers.shell_state import MAX_STEPS_WITHOUT_SLEEP


def start(script: str, stdin: InputBuffer) -> Process:
    context = ContainerContext({}, Files(), random.Random(0), "p", stdin)
    launch = find_launch({"image": "busybox", "command": ["sh", "-c", script]}, context)
    assert launch is not None
    return Process(launch.program, 0.0, context.effort)


def lines(process: Process) -> list[str]:
    return [line.text for line in process.log.lines]


def test_program_reads_its_input_as_it_arrives_and_goes_on_at_its_end() -> None:
    stdin = InputBuffer()
    process = start("echo -n read: && cat && echo ' closed'", stdin)
    assert process.advance(1.0) is None
    stdin.feed(b"value\n")
    process.wake(2.0)
    process.advance(2.0)
    assert (lines(process), process.exit_code) == (["read:value"], None)
    stdin.close()
    process.wake(5.0)
    process.advance(5.0)
    assert (lines(process), process.exit_code, process.ended_at) == (["read:value", " closed"], 0, 5.0)


def test_variables_are_read_from_lines() -> None:
    stdin = InputBuffer(b"a b c\n", is_closed=True)
    process = start("read one rest; echo $rest $one; read more || echo end", stdin)
    process.advance(1.0)
    assert lines(process) == ["b c a", "end"]


def test_program_without_an_input_reads_its_end() -> None:
    process = start("cat && echo done", InputBuffer(is_closed=True))
    process.advance(1.0)
    assert (lines(process), process.exit_code) == (["done"], 0)


def test_sleeping_program_is_not_woken_by_input() -> None:
    process = start("sleep 10; echo late", InputBuffer())
    process.advance(1.0)
    process.wake(2.0)
    process.advance(2.0)
    assert lines(process) == []


@pytest.mark.parametrize(
    "script", ["while true; do :; done", "while true; do sleep 0; :; done", "seq 1000 | while read a; do sleep 0; done"]
)
def test_one_look_at_a_busy_process_is_short(script: str) -> None:
    context = ContainerContext({}, Files(), random.Random(0))
    launch = find_launch({"image": "busybox", "command": ["sh", "-c", script]}, context)
    assert launch is not None
    process = Process(launch.program, 0.0, context.effort)
    for look in range(1, 40):
        before = context.effort.total
        process.advance(look * 100.0)
        assert context.effort.total - before <= 2 * MAX_STEPS_WITHOUT_SLEEP


def test_log_keeps_the_last_lines_of_a_long_text() -> None:
    log = ContainerLog()
    log.write(1.0, "".join(f"{number}\n" for number in range(10_000)))
    assert (log.written, len(log.lines), log.lines[-1].text) == (10_000, MAX_LOG_LINES, "9999")
