"""The files that a simulated container sees: its own, and those of its volumes."""

import pytest

from trimtab.simulate.containers.files import (
    MAX_CHARACTERS_OF_LARGE_FILES,
    MAX_FILE_CHARACTERS,
    MAX_FILES,
    MAX_PATH_CHARACTERS,
    Directory,
    FileOwner,
    Files,
)


def test_volume_hides_the_files_below_its_mount_point_and_the_longest_mount_wins() -> None:
    outer: Directory = {"a": "outer"}
    inner: Directory = {"a": "inner"}
    files = Files({"/data": outer, "/data/deep/": inner}, {"data/a": "hidden"})
    assert [files.read(path) for path in ("/data/a", "//data/./deep/a", "/data/b")] == ["outer", "inner", None]
    files.write("/data/deep/b", "new")
    assert inner["b"] == "new"


def test_symbolic_links_lead_to_their_target_and_may_not_go_round() -> None:
    files = Files(own={"data/real": "content"})
    assert files.link("real", "/data/near")
    assert files.link("/data/near", "/far")
    assert files.read("/far") == "content"
    assert not files.link("/data/real", "/far"), "the path exists"
    assert files.link("/loop", "/loop")
    assert files.read("/loop") is None


def test_files_are_appended_bounded_and_removed() -> None:
    files = Files()
    assert files.write("/log", "a")
    assert files.write("/log", "b", append=True)
    assert files.read("/log") == "ab"
    files.write("/log", "x" * (MAX_FILE_CHARACTERS + 1))
    assert len(files.read("/log") or "") == MAX_FILE_CHARACTERS
    assert files.remove("/log")
    assert not files.remove("/log")


def test_number_of_files_is_bounded() -> None:
    files = Files(own={str(number): "" for number in range(MAX_FILES)})
    assert not files.write("/one-more", "")
    assert files.write("/0", "an existing one")


def test_directories_are_mount_points_and_what_has_files_below() -> None:
    files = Files({"/data": {}}, {"etc/app/config": "", "etc/hosts": ""})
    assert all(files.is_directory(path) for path in ("/", "/tmp", "/data", "/etc", "/etc/app/"))
    assert not files.is_directory("/etc/hosts")
    assert files.names("/etc") == ["app", "hosts"]
    assert files.exists("/etc/hosts")
    assert not files.exists("/etc/other")


@pytest.mark.parametrize(
    ("owner", "mode"),
    [(FileOwner(), "-rw-r--r--"), (FileOwner(user=1000), "-rw-------"), (FileOwner(1000, 2000), "-rw-r-----")],
)
def test_files_of_volumes_belong_to_the_user_or_the_group(owner: FileOwner, mode: str) -> None:
    assert owner.mode == mode


def test_all_large_files_of_a_container_are_bounded_and_so_are_paths() -> None:
    files, large = Files(), "x" * MAX_FILE_CHARACTERS
    written = sum(files.write(f"/{number}", large) for number in range(200))
    assert written * MAX_FILE_CHARACTERS == MAX_CHARACTERS_OF_LARGE_FILES
    assert files.write("/0", large), "it is not larger than before"
    assert files.write("/small", "x")
    assert not files.write("/" + "a/" * MAX_PATH_CHARACTERS, "x")
