"""Runs a command that somebody executes in a simulated container, beside its own program."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.programs import ContainerContext, find_launch
from trimtab.simulate.containers.shell import SHELLS
from trimtab.simulate.containers.shell_state import Effort, Exit
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

MAX_SECONDS = 60.0
"""A command that sleeps longer is ended, as by `timeout`."""
NOT_FOUND, TIMED_OUT = 127, 124


async def run_command(
    command: Sequence[str], text: str, context: ContainerContext, write: Callable[[str], None], turn: asyncio.Lock
) -> int:
    """The exit code of the command; `text` is its input, which a shell without a script runs and `cat` prints.

    Commands that share `turn` run one at a time until each sleeps, with a turn of the event loop in between.
    """
    name, *arguments = command
    name = name.rpartition("/")[2]
    if text and not arguments and name in SHELLS:
        command, text = (name, "-c", text), ""
    given = InputBuffer(text.encode("utf-8", "surrogateescape"), is_closed=True)
    launch = find_launch({"command": list(command), "image": ""}, replace(context, stdin=given, effort=Effort()))
    if launch is None:
        write(f"{' '.join(command)[:200]}: not simulated\n")
        return NOT_FOUND
    run, slept = launch.program(write), 0.0
    while True:
        try:
            async with turn:
                await asyncio.sleep(0)
                seconds = next(run)
        except StopIteration as end:
            return int(end.value or 0)
        except Exit as end:
            return end.code
        except UnsupportedScript as fault:
            write(f"not simulated: {fault}\n")
            return NOT_FOUND
        if slept + seconds > MAX_SECONDS:
            return TIMED_OUT
        slept += seconds
        await asyncio.sleep(seconds)
