"""`find` and `tar` on the files of a simulated container."""

import io
import tarfile

import pytest

from trimtab.simulate.containers.file_utilities import find, tar
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.shell_syntax import UnsupportedScript


def some_files() -> Files:
    files = Files({"/data": {"index.html": "page"}})
    files.write("/root/a.txt", "one\n")
    files.write("/root/b/c.log", "two\n")
    return files


def run_find(*arguments: str) -> tuple[int, list[str]]:
    output: list[str] = []
    code = find(some_files(), arguments, output.append)
    return code, "".join(output).splitlines()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("/data",), ["/data", "/data/index.html"]),
        (("/root",), ["/root", "/root/a.txt", "/root/b", "/root/b/c.log"]),
        (("/root", "-maxdepth", "1"), ["/root", "/root/a.txt", "/root/b"]),
        (("/root", "-type", "f", "-name", "*.log"), ["/root/b/c.log"]),
        (("/root/a.txt",), ["/root/a.txt"]),
    ],
)
def test_find_prints_what_is_below_a_path(arguments: tuple[str, ...], expected: list[str]) -> None:
    assert run_find(*arguments) == (0, expected)


def test_find_tells_what_is_missing_and_what_it_cannot_do() -> None:
    assert run_find("/missing") == (1, ["find: /missing: No such file or directory"])
    with pytest.raises(UnsupportedScript):
        run_find("/root", "-delete")


def test_files_are_packed_and_unpacked_byte_by_byte() -> None:
    content = bytes(range(256))
    source, target, output = some_files(), Files(), list[str]()
    source.write("/root/b/raw", content.decode("utf-8", "surrogateescape"))
    assert tar(source, ("cf", "-", "/root"), b"", output.append) == 0
    packed = "".join(output).encode("utf-8", "surrogateescape")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["root", "root/a.txt", "root/b", "root/b/c.log", "root/b/raw"]
    assert tar(target, ("-xmf", "-", "-C", "/copy"), packed, output.append) == 0
    assert target.read("/copy/root/a.txt") == "one\n"
    assert (target.read("/copy/root/b/raw") or "").encode("utf-8", "surrogateescape") == content


def test_what_is_not_an_archive_is_refused() -> None:
    output: list[str] = []
    assert tar(Files(), ("xf", "-"), b"no archive at all", output.append) == 1
    assert tar(Files(), ("cf", "-", "/missing"), b"", output.append) == 1
    with pytest.raises(UnsupportedScript):
        tar(Files(), ("cf", "/file.tar", "/root"), b"", output.append)


@pytest.mark.parametrize("format_", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("name", ["short", "d" * 90 + "/" + "f" * 90, "äöü/" * 50 + "x"])
def test_archives_of_others_are_unpacked(format_: int, name: str) -> None:
    if format_ == tarfile.USTAR_FORMAT and not name.isascii():
        pytest.skip("names of this format are shorter")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=format_) as archive:
        directory = tarfile.TarInfo("dir")
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        for path in (name, "other"):
            member = tarfile.TarInfo(path)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
    files = Files()
    assert tar(files, ("xf", "-"), packed.getvalue(), list[str]().append) == 0
    assert (files.read(f"/{name}"), files.read("/other")) == ("abc", "abc")


def test_crafted_archive_is_refused_or_read_in_few_steps() -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 6_000_000
    records = b"6 a=b\n" * 1_000_000 + b"\0" * (-6_000_000 % 512)
    file = tarfile.TarInfo("y").tobuf(tarfile.USTAR_FORMAT)
    files, steps = Files(), list[int]()
    bomb = header.tobuf(tarfile.USTAR_FORMAT) + records + file + b"\0" * 1024
    assert tar(files, ("xf", "-"), bomb, list[str]().append, steps.append) == 0
    assert files.read("/y") == ""
    assert sum(steps) < 100
    output: list[str] = []
    for broken in (file[:-1], b"x" + file[1:], file[:124] + b"\x80" * 12 + file[136:], b"a" * 1024):
        assert tar(Files(), ("xf", "-"), broken, output.append) == 1
    longer = tarfile.TarInfo("z")
    longer.size = 100
    assert tar(Files(), ("xf", "-"), longer.tobuf(tarfile.USTAR_FORMAT), output.append) == 1
    assert all(line.startswith("tar: ") for line in output)
