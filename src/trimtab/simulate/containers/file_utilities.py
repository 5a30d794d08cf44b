"""`find` and `tar` of a simulated container, on its files."""

import fnmatch
import io
import tarfile
from collections.abc import Callable, Sequence

from trimtab.simulate.containers.files import MAX_FILE_CHARACTERS, MAX_FILES, Files
from trimtab.simulate.containers.shell_syntax import UnsupportedScript

Write = Callable[[str], None]
_TAR_FLAGS = frozenset("-cxvfmpoPh")


def find(files: Files, arguments: Sequence[str], write: Write) -> int:
    """Print the paths below each start, as `find START... [-maxdepth N] [-type f|d] [-name PATTERN]` does."""
    starts, tests = _starts_and_tests(arguments)
    code = 0
    for start in starts or ["."]:
        if not files.exists(start):
            write(f"find: {start}: No such file or directory\n")
            code = 1
            continue
        for path, is_directory in _tree(files, start):
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


def _tree(files: Files, start: str) -> list[tuple[str, bool]]:
    """Every path below a start and the start itself, and whether it is a directory."""
    if files.read(start) is not None:
        return [(start, False)]
    found = [(start, True)]
    for name in files.names(start):
        found += _tree(files, f"{start.rstrip('/')}/{name}")
    return found


def tar(files: Files, arguments: Sequence[str], given: bytes, write: Write) -> int:
    """Pack files to the output, or unpack the input: what `kubectl cp` runs."""
    flags, directory, paths = _tar_arguments(arguments)
    if "c" in flags:
        return _pack(files, directory, paths, write)
    if "x" in flags:
        return _unpack(files, directory, given, write)
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


def _pack(files: Files, directory: str, paths: Sequence[str], write: Write) -> int:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in paths:
            whole = path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"
            if not files.exists(whole):
                write(f"tar: {path}: No such file or directory\n")
                return 1
            for one, is_directory in _tree(files, whole):
                member = tarfile.TarInfo(one.lstrip("/") or ".")
                content = b"" if is_directory else (files.read(one) or "").encode("utf-8", "surrogateescape")
                member.type = tarfile.DIRTYPE if is_directory else tarfile.REGTYPE
                member.mode, member.size = 0o755 if is_directory else 0o644, len(content)
                archive.addfile(member, io.BytesIO(content))
    write(packed.getvalue().decode("utf-8", "surrogateescape"))
    return 0


def _unpack(files: Files, directory: str, given: bytes, write: Write) -> int:
    try:
        with tarfile.open(fileobj=io.BytesIO(given), mode="r:") as archive:
            for count, member in enumerate(archive):
                if count >= MAX_FILES:
                    break
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None:
                    text = content.read(MAX_FILE_CHARACTERS).decode("utf-8", "surrogateescape")
                    files.write(f"{directory.rstrip('/')}/{member.name.lstrip('/')}", text)
    except (tarfile.TarError, EOFError, ValueError) as fault:
        write(f"tar: {fault}\n")
        return 1
    return 0
