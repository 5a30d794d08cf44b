"""Utilities that scripts call."""

from simulate.containers.script_runs import Ran


def test_env_prints_the_environment() -> None:
    assert Ran("env", {"B": "2", "A": "1"}).output == "A=1\nB=2\n"


def test_redirections_write_files_and_mv_moves_them() -> None:
    ran = Ran("echo one > /a; echo two >> /a; mv -v /a /tmp/ || true; cat /tmp/a; cat /a 2>/dev/null")
    assert (ran.code, ran.files.read("/tmp/a")) == (1, "one\ntwo\n")
    assert "one\ntwo\n" in ran.output


def test_dd_copies_as_many_blocks_as_it_is_told() -> None:
    ran = Ran("dd if=/dev/zero of=/a bs=2 count=3; echo abcdef > /b; dd if=/b of=/c bs=1 count=4; dd if=/none of=/d")
    assert (ran.files.read("/a"), ran.files.read("/c"), ran.files.read("/d")) == ("\0" * 6, "abcd", None)
    assert ran.code == 1


def test_grep_finds_lines_of_files_and_of_its_input() -> None:
    ran = Ran("echo a.b > /f; echo axb >> /f; echo c >> /f; grep a.b /f; grep -F a.b /f; grep -c ^a /f; grep -q d /f")
    assert (ran.output, ran.code) == ("a.b\naxb\na.b\n2\n", 1)
    assert Ran("echo Hello | grep -i hello").output == "Hello\n"
    assert Ran("grep x /none").code == 2
