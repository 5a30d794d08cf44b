"""What scripts of simulated containers may do without a pause."""

import random

import pytest

from simulate.containers.script_runs import Ran
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.shell import Shell
from trimtab.simulate.containers.shell_state import MAX_STEPS_WITHOUT_SLEEP
from trimtab.simulate.containers.shell_syntax import UnsupportedScript, parse_script

HOSTILE_SCRIPTS = {
    "nest substitutions": "a=" + "$(" * 60 + ":;" * 100 + "x" * 9000 + ")" * 60,
    "search for ends": 'echo "' + "$((" * 5000 + '"',
    "search for ends in outputs": "a='${b:-'; " + "a=$a$a; " * 12 + "echo $a > f; cat f > g; echo $(cat g)",
    "multiply a value": "a=x; " + "a=$a$a; " * 15 + "echo " + "$a" * 500,
    "join values": "a=x; " + "a=$a$a; " * 15 + 'b="$a""$a""$a"',
    "multiply a number": "a=1; " + "a=$a$a; " * 15 + "echo $((" + "+".join(["a"] * 500) + "))",
    "find": "for i in $(seq 1 900); do touch /$i" + "/a" * 50 + "; done; find /",
    "pack": "for i in $(seq 1 900); do touch /$i/a/b/c; done; tar cf - /",
    "fill variables": "a=x; " + "a=$a$a; " * 15 + "for i in $(seq 1 900); do export v$i=$a; done",
    "too many words": ": " * 7500,
}


@pytest.mark.parametrize("script", HOSTILE_SCRIPTS.values(), ids=HOSTILE_SCRIPTS.keys())
def test_work_that_cannot_pause_is_refused_before_it_is_done(script: str) -> None:
    with pytest.raises(UnsupportedScript, match=r"takes too long|too long|not simulated"):
        Ran(script)


class CountingFiles(Files):
    searches = 0

    def is_directory(self, path: str) -> bool:
        self.searches += 1
        return super().is_directory(path)


@pytest.mark.parametrize(
    "command", ["[ " + " -o ".join(["-d /none"] * 30) + " ]", "[ -e /none ]", "ls /none/", "cp /1/a /none"]
)
def test_searches_in_many_files_count_as_many_steps(command: str) -> None:
    files = CountingFiles(own={f"{number}/a": "x" for number in range(1000)})
    shell = Shell({}, files, random.Random(1), lambda _: None)
    run = shell.run(parse_script(f"while true; do {command}; done"))
    for _ in range(3):
        files.searches = 0
        next(run)
        assert 0 < files.searches <= 100


@pytest.mark.parametrize("pause", ["sleep 0", "sleep 0.001", "echo a | cat"])
def test_script_that_sleeps_briefly_is_busy_all_the_same(pause: str) -> None:
    shell = Shell({}, Files(), random.Random(1), lambda _: None)
    run = shell.run(parse_script(f"while true; do {pause}; :; :; done"))
    slept = 0.0
    for _ in range(3000):
        slept += next(run)
        if slept >= 3:
            break
    assert shell.effort.total < 2 * MAX_STEPS_WITHOUT_SLEEP * (slept + 1)


def test_trap_that_does_not_end_is_not_followed_for_long() -> None:
    shell = Shell({}, Files(), random.Random(1), lambda _: None)
    shell.trap = "while true; do sleep 0; :; done"
    assert shell.termination_seconds() < 10
    assert shell.effort.total < 2 * MAX_STEPS_WITHOUT_SLEEP
    shell.trap = "while true; do sleep 1d; done"
    assert shell.termination_seconds() >= 86_400


def test_parsing_counts_as_steps() -> None:
    parsed: list[str] = []
    shell = Shell({}, Files(), random.Random(1), parsed.append)
    run = shell.run(parse_script("while true; do sh -c '" + "a=b " * 900 + "'; echo; done"))
    next(run)
    assert len(parsed) < 10


def test_pipe_with_much_text_counts_as_steps() -> None:
    files = Files(own={"f": "x" * 60_000})
    shell = Shell({}, files, random.Random(1), lambda _: None)
    run = shell.run(parse_script("(" + "cat f;" * 16 + ")" + "| cat" * 800))
    assert sum(1 for _ in run) > 100
