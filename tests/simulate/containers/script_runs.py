"""Runs a script of a simulated container to its end."""

import random

from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.shell import Shell, check_is_simulated
from trimtab.simulate.containers.shell_syntax import parse_script


class Ran:
    """What a script did."""

    def __init__(self, script: str, environment: dict[str, str] | None = None, files: Files | None = None) -> None:
        self.files = files or Files()
        self.output = ""
        self.slept = 0.0
        shell = Shell(dict(environment or {}), self.files, random.Random(1), self._write)
        node = parse_script(script)
        check_is_simulated(node)
        run = shell.run(node)
        while True:
            try:
                self.slept += next(run)
            except StopIteration as end:
                self.code = end.value
                return

    def _write(self, text: str) -> None:
        self.output += text
