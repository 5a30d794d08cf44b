"""A progress bar in the last line of a terminal."""

import sys
import time

import click

WIDTH = 30
PAUSE_SECONDS = 0.1


def bar_text(fraction: float) -> str:
    full = round(WIDTH * min(1.0, max(0.0, fraction)))
    return f"[{'#' * full}{'.' * (WIDTH - full)}]"


class ProgressBar:
    """Writes to standard error, and only when that is a terminal."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled and sys.stderr.isatty()
        self._shown_at = 0.0
        self._length = 0

    def show(self, fraction: float, text: str = "") -> None:
        if self._enabled and time.perf_counter() - self._shown_at > PAUSE_SECONDS:
            self.clear()
            line = f"{bar_text(fraction)} {fraction:4.0%} {text}".rstrip()
            click.echo(line, err=True, nl=False)
            self._shown_at, self._length = time.perf_counter(), len(line)

    def clear(self) -> None:
        if self._enabled and self._length:
            click.echo(f"\r{' ' * self._length}\r", err=True, nl=False)
            self._length = 0
