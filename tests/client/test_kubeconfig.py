"""Credentials are found where kubectl users keep them."""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from trimtab.client.kubeconfig import TokenSource, load
from trimtab.errors import InputFault

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def write(path, **user):
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": "https://127.0.0.1:6443/",
                            "certificate-authority-data": base64.b64encode(b"CA").decode(),
                        },
                    }
                ],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


def test_a_token_is_read(tmp_path) -> None:
    found = load(write(tmp_path / "config", token="secret"))
    assert (found.server, found.token, found.ca, found.namespace) == ("https://127.0.0.1:6443", "secret", b"CA", "team")


def test_paths_are_relative_to_the_file_that_names_them(tmp_path) -> None:
    (tmp_path / "me.crt").write_bytes(b"CRT")
    (tmp_path / "me.key").write_bytes(b"KEY")
    found = load(write(tmp_path / "config", **{"client-certificate": "me.crt", "client-key": "me.key"}))
    assert (found.cert, found.key) == (b"CRT", b"KEY")


def test_a_token_file_is_read_again_as_it_is_rotated(tmp_path) -> None:
    (tmp_path / "token").write_text("first\n")
    source = TokenSource(load(write(tmp_path / "config", tokenFile="token")))
    assert source.current(NOON) == "first"
    (tmp_path / "token").write_text("second\n")
    assert source.current(NOON + timedelta(seconds=30)) == "first"
    assert source.current(NOON + timedelta(seconds=61)) == "second"


def test_an_exec_plugin_is_asked_and_its_answer_kept_until_it_expires(tmp_path) -> None:
    counter = tmp_path / "calls"
    script = tmp_path / "plugin.py"
    answer = {"status": {"token": "from-plugin", "expirationTimestamp": "2030-01-01T13:00:00Z"}}
    script.write_text(f"open({str(counter)!r}, 'a').write('x'); print({json.dumps(answer)!r})")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    source = TokenSource(load(write(tmp_path / "config", exec=plugin)))
    assert [source.current(NOON), source.current(NOON + timedelta(minutes=59))] == ["from-plugin"] * 2
    assert counter.read_text() == "x"
    source.current(NOON + timedelta(minutes=60))
    assert counter.read_text() == "xx"


def test_a_plugin_that_fails_is_named(tmp_path) -> None:
    plugin = {"command": "no-such-plugin"}
    with pytest.raises(InputFault, match="no-such-plugin"):
        TokenSource(load(write(tmp_path / "config", exec=plugin))).current(NOON)


def test_the_first_file_wins(tmp_path, monkeypatch) -> None:
    first = write(tmp_path / "first", token="one")
    second = write(tmp_path / "second", token="two")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path / 'absent'}")
    assert load().token == "one"


def test_an_unknown_context_names_those_there_are(tmp_path) -> None:
    with pytest.raises(InputFault, match="it has: here"):
        load(write(tmp_path / "config"), "there")


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(InputFault, match="nowhere"):
        load(tmp_path / "nowhere")
