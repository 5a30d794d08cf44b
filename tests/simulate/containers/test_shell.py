import random

import pytest

from simulate.containers.script_runs import Ran
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.shell import Shell
from trimtab.simulate.containers.shell_syntax import UnsupportedScript, parse_script
from trimtab.simulate.containers.utilities import UTILITIES


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("true && false", 1),
        ("false || exit 7", 7),
        ("false; true", 0),
        ("if [ 1 -eq 1 ]; then exit 4; else exit 5; fi", 4),
        ("if [ $(expr ${INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi", 1),
        ("exit $(( 5 / 2 + 1 ))", 3),
        ("[[ -r /data/missing ]]", 1),
        ("for x in a b c; do if [ $x = b ]; then exit 9; fi; done", 9),
        ("until true; do exit 1; done", 0),
        ("stop() { exit 6; }\nstop", 6),
        ('[[ "$( cat /empty )" == "" ]]', 0),
    ],
)
def test_exit_codes_are_those_of_a_shell(script: str, code: int) -> None:
    files = Files()
    files.write("/empty", "")
    assert Ran(script, {"INDEX": "3"}, files).code == code


def test_sleep_takes_simulated_time() -> None:
    assert Ran("echo container is alive; sleep 600; sleep 1m").slept == 660
    assert Ran("i=0; while [ $i -lt 3 ]; do sleep 2; i=$((i+1)); done").slept == 6


def test_files_are_shared_between_runs_on_the_same_volume() -> None:
    volume: dict[str, str] = {}
    script = "if [[ -r /data/foo ]]\nthen\n exit 0\nelse\n touch /data/foo\n exit 1\nfi"
    assert Ran(script, files=Files({"/data": volume})).code == 1
    assert Ran(script, files=Files({"/data": volume})).code == 0


def test_an_endless_loop_without_sleep_pauses() -> None:
    shell = Shell({}, Files(), random.Random(1), lambda _: None)
    run = shell.run(parse_script("while true; do :; done"))
    assert next(run) > 0


@pytest.mark.parametrize(
    "script",
    ["curl http://example.com", "sleep 5 &", "$COMMAND", "'", "echo $((1 + )) $(", "if true; then", "case x in esac"],
)
def test_what_is_not_simulated_is_refused(script: str) -> None:
    with pytest.raises(UnsupportedScript):
        Ran(script)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("i=0; while true; do i=$i$i$i$i; done", "values of more than"),
        ("i=0; while true; do i=$((i+1)); export v$i=x; done", "variables"),
        ("dd if=/dev/zero of=/a bs=1M count=1; while true; do cat /a; done | cat", "characters in a pipe"),
        ("dd if=/dev/zero of=/a bs=1M count=1; sh -c 'while true; do cat /a; done' > /b", "characters in a pipe"),
        ("f() { f; }; f", "calls itself too often"),
        ("f() { echo $(f); }; f", "calls itself too often"),
        ("x=$(for i in $(seq 1000); do x=$(seq 1000); done)", "substitution takes too long"),
        ("x=$(sh -c 'while true; do true; done')", "substitution takes too long"),
        ("seq", "seq with these arguments"),
        ("[ " + " -o ".join(["a"] * 900) + " ]", "words"),
    ],
)
def test_script_that_would_need_much_memory_or_time_is_not_simulated(script: str, reason: str) -> None:
    with pytest.raises(UnsupportedScript, match=reason):
        Ran(script)


@pytest.mark.parametrize(
    "body",
    ["seq 1 1000000", "dd if=/dev/zero bs=1M count=1", f"x={'a' * 10_000}", f"x=$(({'(' * 90}1{')' * 90}))", "true"],
)
def test_endless_loop_pauses_after_an_effort_that_grows_with_its_texts(body: str) -> None:
    calls = 0

    def count(_: Shell, __: object, ___: object) -> int:
        nonlocal calls
        calls += 1
        return 0

    UTILITIES["count"] = count
    try:
        shell = Shell({}, Files(), random.Random(1), lambda _: None)
        next(shell.run(parse_script(f"while true; do {body}; count; done")))
    finally:
        del UTILITIES["count"]
    assert calls <= (500 if body == "true" else 60)
