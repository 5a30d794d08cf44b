"""`find` and `tar` of a simulated container, on its files."""

import fnmatch
import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS, MAX_FILES, MAX_PATH_CHARACTERS, Files
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

Write = Callable[[str], None]
CountSteps = Callable[[int], None]
"""Counts work before it is done; raises when it is too much."""
_NODES_PER_STEP = 4
_BLOCKS_PER_STEP = 8
_BLOCK = 512
_MAX_EXTENDED_HEADER = 16 * 1024
_MAX_RECORDS = 100
_TAR_FLAGS = frozenset("-cxvfmpoPh")


def find(files: Files, arguments: Sequence[str], write: Write, count_steps: CountSteps = lambda _: None) -> int:
    """Print the paths below each start, as `find START... [-maxdepth N] [-type f|d] [-name PATTERN]` does."""
    starts, tests = _starts_and_tests(arguments)
    code = 0
    for start in starts or ["."]:
        if not files.exists(start):
            write(f"find: {start}: No such file or directory\n")
            code = 1
            continue
        for path, is_directory in _tree(files, start, count_steps):
            depth = path.removeprefix(start.rstrip("/")).count("/")
            if depth > int(tests.get("-maxdepth", "1000")):
                continue
            if tests.get("-type", "d" if is_directory else "f") != ("d" if is_directory else "f"):
                continue
            if fnmatch.fnmatchcase(path.rstrip("/").rpartition("/")[2], tests.get("-name", "*")):
                write(f"{path}\n")
    return code


def _starts_and_tests(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    starts: list[str] = []
    tests: dict[str, str] = {}
    words = [one for one in arguments if one not in ("-H", "-L", "-P", "-print")]
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            starts.append(word)
        elif word in ("-maxdepth", "-type", "-name") and words:
            tests[word] = words.pop(0)
        else:
            raise UnsupportedScript(f"find {word} is not simulated")
    if not tests.get("-maxdepth", "0").isdecimal():
        raise UnsupportedScript("find -maxdepth needs a number")
    return starts, tests


def _tree(files: Files, start: str, count_steps: CountSteps) -> list[tuple[str, bool]]:
    """Every path below a start and the start itself, and whether it is a directory."""
    if files.read(start) is not None:
        return [(start, False)]
    found = {start: True}
    paths = files.below(start)
    count_steps(sum(map(len, paths)) // _NODES_PER_STEP)
    for parts in paths:
        path = start.rstrip("/")
        for part in parts[:-1]:
            path = f"{path}/{part}"
            if not found.setdefault(path, True):
                break
        else:
            path = f"{path}/{parts[-1]}"
            found[path] = files.read(path) is None
    return list(found.items())


def tar(
    files: Files, arguments: Sequence[str], given: bytes, write: Write, count_steps: CountSteps = lambda _: None
) -> int:
    """Pack files to the output, or unpack the input: what `kubectl cp` runs."""
    flags, directory, paths = _tar_arguments(arguments)
    if "c" in flags:
        return _pack(files, directory, paths, write, count_steps)
    if "x" in flags:
        return _unpack(files, directory, given, write, count_steps)
    raise UnsupportedScript("tar is simulated with c and x only")


def _tar_arguments(arguments: Sequence[str]) -> tuple[str, str, list[str]]:
    """Flags, directory of `-C`, and paths; the archive must be the input or the output."""
    words = [one for one in arguments if not one.startswith("--no-same-")]
    if not words or not set(words[0]) <= _TAR_FLAGS:
        raise UnsupportedScript("these flags of tar are not simulated")
    flags, rest = words[0].lstrip("-"), words[1:]
    if "f" in flags and rest[:1] == ["-"]:
        rest = rest[1:]
    elif "f" in flags:
        raise UnsupportedScript("tar is simulated with the input and the output only")
    directory = ""
    if "-C" in rest and rest.index("-C") + 1 < len(rest):
        at = rest.index("-C")
        directory, rest = rest[at + 1], [*rest[:at], *rest[at + 2 :]]
    return flags, directory, [one for one in rest if not one.startswith("-")]


def _pack(files: Files, directory: str, paths: Sequence[str], write: Write, count_steps: CountSteps) -> int:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            whole = path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"
            if not files.exists(whole):
                write(f"tar: {path}: No such file or directory\n")
                return 1
            nodes = _tree(files, whole, count_steps)
            count_steps(len(nodes) * _NODES_PER_STEP)
            for one, is_directory in nodes:
                member = tarfile.TarInfo(one.lstrip("/") or ".")
                content = b"" if is_directory else (files.read(one) or "").encode("utf-8", "surrogateescape")
                member.type = tarfile.DIRTYPE if is_directory else tarfile.REGTYPE
                member.mode, member.size = 0o755 if is_directory else 0o644, len(content)
                archive.addfile(member, io.BytesIO(content))
    write(packed.getvalue().decode("utf-8", "surrogateescape"))
    return 0


def _unpack(files: Files, directory: str, given: bytes, write: Write, count_steps: CountSteps) -> int:
    try:
        for name, content in islice(_regular_files(given, count_steps), MAX_FILES):
            text = content[:MAX_FILE_CHARACTERS].decode("utf-8", "surrogateescape")
            files.write(f"{directory.rstrip('/')}/{name.lstrip('/')}", text)
    except ValueError as fault:
        write(f"tar: {fault}\n")
        return 1
    return 0


def _regular_files(archive: bytes, count_steps: CountSteps) -> Iterator[tuple[str, bytes]]:
    """Names and contents of an archive. `tarfile` would take seconds for some crafted ones."""
    if len(archive) < _BLOCK:
        raise ValueError("short read")
    position, long_name = 0, ""
    while header := archive[position : position + _BLOCK].rstrip(b"\0"):
        header = archive[position : position + _BLOCK]
        if len(header) < _BLOCK or sum(header) - sum(header[148:156]) + 8 * ord(" ") != _octal(header[148:156]):
            raise ValueError("invalid tar header checksum")
        size, kind = _octal(header[124:136]), header[156:157]
        start = position + _BLOCK
        position = start + size + -size % _BLOCK
        count_steps(1 + min(size, MAX_FILE_CHARACTERS) // (_BLOCK * _BLOCKS_PER_STEP))
        if kind == b"L":
            long_name = _text(archive[start : start + min(size, MAX_PATH_CHARACTERS)])
            continue
        if kind == b"x":
            long_name = _path_record(archive[start : start + min(size, _MAX_EXTENDED_HEADER)]) or long_name
            continue
        if kind in (b"0", b"\0"):
            if start + size > len(archive):
                raise ValueError("unexpected end of file")
            prefix = _text(header[345:500]) if header[257:262] == b"ustar" else ""
            short_name = "/".join(filter(None, (prefix, _text(header[:100]))))
            yield long_name or short_name, archive[start : start + size]
        if kind != b"g":
            long_name = ""


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits.isdigit():
        if digits:
            raise ValueError("invalid number in a tar header")
        return 0
    return int(digits, 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _path_record(records: bytes) -> str:
    """The record `path` of an extended header; a record is its length, a space, the key, `=`, the value and a line end."""
    for _ in range(_MAX_RECORDS):
        length, space, _ = records[:10].partition(b" ")
        if not space or not length.isdigit() or not int(length):
            break
        key, _, value = records[len(length) + 1 : int(length)].rstrip(b"\n").partition(b"=")
        if key == b"path":
            return value[:MAX_PATH_CHARACTERS].decode("utf-8", "surrogateescape")
        records = records[int(length) :]
    return ""
