"""A progress bar in the last line of a terminal."""

import sys
import time

import click

WIDTH = 30
PAUSE_SECONDS = 0.1


def drawn(part: float) -> str:
    full = round(WIDTH * min(1.0, max(0.0, part)))
    return f"[{'#' * full}{'.' * (WIDTH - full)}]"


class Bar:
    """Writes to standard error, and only when that is a terminal."""

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._shown = 0.0
        self._length = 0

    def show(self, part: float, text: str = "") -> None:
        if self._wanted and time.perf_counter() - self._shown > PAUSE_SECONDS:
            self.clear()
            line = f"{drawn(part)} {part:4.0%} {text}".rstrip()
            click.echo(line, err=True, nl=False)
            self._shown, self._length = time.perf_counter(), len(line)

    def clear(self) -> None:
        if self._wanted and self._length:
            click.echo(f"\r{' ' * self._length}\r", err=True, nl=False)
            self._length = 0
