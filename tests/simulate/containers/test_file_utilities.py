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
