"""Sessions of browsers: links that work once, time limits, CSRF tokens, and what a restart keeps."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.console.sessions import (
    IDLE,
    LIFETIME,
    LINK_LIFETIME,
    MAX_LINKS,
    MAX_SESSIONS,
    Sessions,
    is_csrf_token,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class SettableTime:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def test_a_link_signs_in_once() -> None:
    sessions = Sessions(SettableTime())
    code = sessions.new_link("ann", "token")
    opened = sessions.follow_link(code)
    assert opened is not None
    found = sessions.find(opened)
    assert found is not None
    assert (found.user, found.token) == ("ann", "token")
    assert sessions.follow_link(code) is None
    assert sessions.follow_link("guessed") is None


def test_a_link_ends() -> None:
    time = SettableTime()
    sessions = Sessions(time)
    code, other = sessions.new_link("ann", ""), sessions.new_link("ann", "")
    time.now = START + LINK_LIFETIME - SECOND
    assert sessions.follow_link(code) is not None
    time.now = START + LINK_LIFETIME
    assert sessions.follow_link(other) is None


def test_only_the_latest_links_are_valid() -> None:
    sessions = Sessions(SettableTime())
    codes = [sessions.new_link("ann", "") for _ in range(MAX_LINKS + 1)]
    assert sessions.follow_link(codes[0]) is None
    assert sessions.follow_link(codes[1]) is not None


def test_a_session_ends_when_nobody_uses_it() -> None:
    time = SettableTime()
    sessions = Sessions(time)
    used, idle = sessions.open("ann", ""), sessions.open("bob", "")
    time.now = START + IDLE - SECOND
    assert sessions.find(used) is not None
    time.now = START + IDLE
    assert sessions.find(idle) is None
    assert sessions.find(used) is not None


def test_a_session_ends_at_its_time_however_much_it_is_used() -> None:
    time = SettableTime()
    sessions = Sessions(time)
    opened = sessions.open("ann", "")
    while time.now < START + LIFETIME - IDLE:
        time.now += IDLE / 2
        assert sessions.find(opened) is not None
    time.now = START + LIFETIME - SECOND
    assert sessions.find(opened) is not None
    time.now = START + LIFETIME
    assert sessions.find(opened) is None


def test_a_closed_session_does_not_come_back(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    sessions = Sessions(SettableTime(), file)
    opened = sessions.open("ann", "token")
    found = sessions.find(opened)
    assert found is not None
    sessions.close(found)
    assert sessions.find(opened) is None
    assert Sessions(SettableTime(), file).find(opened) is None


def test_a_restart_keeps_sessions_and_the_file_alone_gives_no_access(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    opened = Sessions(SettableTime(), file).open("ann", "secret-token")
    assert file.stat().st_mode & 0o077 == 0
    content = file.read_bytes()
    assert b"secret-token" not in content
    assert opened.encode() not in content
    restarted = Sessions(SettableTime(), file)
    found = restarted.find(opened)
    assert found is not None
    assert found.token == "secret-token"
    assert restarted.find(found.digest) is None, "the digest in the file is no session id"


def test_a_restart_does_not_lengthen_a_session(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    opened = Sessions(SettableTime(), file).open("ann", "")
    time = SettableTime()
    time.now = START + IDLE
    assert Sessions(time, file).find(opened) is None


def test_a_damaged_file_signs_everybody_out(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    file.write_bytes(b"{")
    assert Sessions(SettableTime(), file).find("anything") is None


def test_a_csrf_token_is_valid_for_its_session_only() -> None:
    sessions = Sessions(SettableTime())
    ann, bob = sessions.find(sessions.open("ann", "")), sessions.find(sessions.open("bob", ""))
    assert ann is not None
    assert bob is not None
    assert is_csrf_token(ann, ann.csrf)
    assert not is_csrf_token(ann, bob.csrf)
    assert not is_csrf_token(ann, "")


def test_the_number_of_sessions_is_bounded_and_the_oldest_one_goes() -> None:
    time = SettableTime()
    sessions = Sessions(time)
    first = sessions.open("ann", "")
    time.now += SECOND
    for _ in range(MAX_SESSIONS):
        sessions.open("bob", "")
    assert sessions.find(first) is None
