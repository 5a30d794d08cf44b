"""Fenced blocks of Markdown pages, and the commands with their output in them.

    ```console              a session: lines with `$ ` are commands, the lines after them their output
    ```yaml title="a.yaml"  a file that later commands of the page use
    <!-- run: command -->   a command that the page describes in words, such as an edit of a file
    <!-- checkout: path -->  what the page adds files to: it is copied, and the commands run with the copy
    <!-- port: 9080 -->     this port stands for a free one, in files and commands
    $ command &             a command that runs until the end of the page
    $ trimtab up OPTIONS    starts the fleet of the page with these options
    <!-- no-test: why -->   directly before a block: its commands cannot run here, for this reason

In expected output, a line `...` stands for any number of lines, and `...` within a line for any text.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(
    r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$|^<!-- run: (?P<command>[^\n]*) -->$", re.DOTALL | re.MULTILINE
)
RUN = "run"
"""The language of a block that is a hidden command."""
_NO_TEST = re.compile(r"<!-- no-test: (?P<reason>[^\n]+?) -->\s*\Z")
_TITLE = re.compile(r'title="(?P<name>[^"]+)"')


class Block(NamedTuple):
    """One fenced block."""

    language: str
    title: str
    body: str
    line: int
    skipped: str
    """Why its commands are not run; empty when they are."""


class Step(NamedTuple):
    """A command and its expected output."""

    command: str
    output: tuple[str, ...]
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 1
        if match["command"] is not None:
            found.append(Block(RUN, "", match["command"], line, ""))
            continue
        info = match["info"].strip()
        title = _TITLE.search(info)
        reason = _NO_TEST.search(text[: match.start()])
        found.append(
            Block(
                info.split()[0] if info else "",
                title["name"] if title else "",
                match["body"],
                line,
                reason["reason"] if reason else "",
            )
        )
    return found


def steps_of(block: Block) -> Iterator[Step]:
    """The commands of a console block; a line that ends in a backslash continues in the next one."""
    command, output, line, continues = "", [], 0, False
    for number, text in enumerate(block.body.splitlines(), block.line + 1):
        if continues:
            command, continues = f"{command}\n{text}", text.endswith("\\")
        elif text.startswith("$ "):
            if command:
                yield Step(command, tuple(output), line)
            command, output, line, continues = text[2:], [], number, text.endswith("\\")
        else:
            output.append(text)
    if command:
        yield Step(command, tuple(output), line)


_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "TIME"),
    (re.compile(r"(?<![\w.:/-])(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|y)){1,3}(?![\w%])"), "DURATION"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)? (?:s|ms|min|h|seconds)\b(?: \d+ (?:s|min)\b)*"), "DURATION"),
    (re.compile(r"-[a-z0-9]{8,10}-[a-z0-9]{5}\b"), "-POD"),
    (re.compile(r"-[0-9a-f]{9,10}\b"), "-HASH"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "HASH"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d+\.\d %"), "N %"),
    (re.compile(r"\d+\.\d(?= (?:to|percentage))"), "N"),
)


def normalised(line: str) -> str:
    """The line without what differs between two runs: times, durations, generated names, ports, spaces."""
    for pattern, word in _VARIABLE:
        line = pattern.sub(word, line)
    return re.sub(r"\s+", " ", line).strip()


def matches(expected: tuple[str, ...], actual: list[str]) -> bool:
    """Whether the output is the expected one; blank lines do not count."""
    wanted = [normalised(line) for line in expected if line.strip()]
    found = [normalised(line) for line in actual if line.strip()]
    if not wanted:
        return True
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n" for line in wanted
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None
