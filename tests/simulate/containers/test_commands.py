"""Commands that somebody executes in a container."""

import asyncio
import random
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from trimtab.clock import run_virtually
from trimtab.simulate.containers.commands import run_command
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.programs import ContainerContext


def run(*command: str, text: str = "", files: Files | None = None) -> tuple[int, str]:
    context = ContainerContext({"HOSTNAME": "p"}, files or Files(), random.Random(0), "p")
    output: list[str] = []
    code = run_virtually(run_command(command, text, context, output.append, asyncio.Lock()))
    return code, "".join(output)


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        (("echo", "polo"), "", (0, "polo\n")),
        (("/bin/sh", "-c", "echo hi; exit 3"), "", (3, "hi\n")),
        (("sh", "-x", "-c", "test -f /missing || echo no"), "", (0, "no\n")),
        (("cat",), "typed\n", (0, "typed\n")),
        (("sh",), "echo from input\n", (0, "from input\n")),
        (("sh", "-c", "echo $(hostname) | dd of=/f; cat /f"), "", (0, "p\n")),
        (("sh", "-c", "false && echo a | cat; echo b | cat | cat"), "", (0, "b\n")),
        (
            ("sh", "-c", "echo x > /d/f; ln -s f /d/l; ln -s /d/l /m; cat /m; ln -s /d/f /d/l || echo no"),
            "",
            (0, "x\nno\n"),
        ),
        (("sh", "-c", "ln -s /loop /loop; cat /loop"), "", (1, "cat: can't open '/loop': No such file or directory\n")),
        (("date",), "", (0, "Thu Jan  1 00:00:00 UTC 1970\n")),
        (("sh", "-c", "echo $(date +%H:%M)"), "", (0, "00:00\n")),
        (("frobnicate", "--all"), "", (127, "frobnicate --all: not simulated\n")),
        (("sleep", "5"), "", (0, "")),
        (("sleep", "1000"), "", (124, "")),
    ],
)
def test_command_prints_and_ends_as_in_a_container(
    command: tuple[str, ...], text: str, expected: tuple[int, str]
) -> None:
    assert run(*command, text=text) == expected


def test_command_changes_the_files_of_the_container() -> None:
    files = Files()
    files.write("/www/index.html", "page")
    assert run("sh", "-c", "mv /www/index.html /tmp/", files=files)[0] == 0
    assert (files.read("/www/index.html"), files.read("/tmp/index.html")) == (None, "page")


def test_commands_take_turns_with_each_other_and_with_the_event_loop() -> None:
    async def scenario() -> list[str]:
        order, turn = list[str](), asyncio.Lock()

        async def count_turns() -> None:
            for _ in range(20):
                order.append("turn")
                await asyncio.sleep(0)

        def command(name: str) -> Coroutine[Any, Any, int]:
            context = ContainerContext({}, Files(), random.Random(1))
            return run_command(["sh", "-c", f"echo {name}"], "", context, order.append, turn)

        await asyncio.gather(count_turns(), *(command(str(number)) for number in range(5)))
        return order

    order = run_virtually(scenario())
    written = [place for place, text in enumerate(order) if text != "turn"]
    assert len(written) == 5
    assert all("turn" in order[one:other] for one, other in pairwise(written))
