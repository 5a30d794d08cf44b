"""Credentials are read from the same places as by kubectl."""

import base64
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from trimtab.client.kubeconfig import TokenSource, _read, load
from trimtab.errors import InputError

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


def test_token_is_read(tmp_path) -> None:
    found = load(write(tmp_path / "config", token="secret"))
    assert (found.server, found.token, found.ca, found.namespace) == ("https://127.0.0.1:6443", "secret", b"CA", "team")


def test_paths_are_relative_to_the_kubeconfig(tmp_path) -> None:
    (tmp_path / "me.crt").write_bytes(b"CRT")
    (tmp_path / "me.key").write_bytes(b"KEY")
    found = load(write(tmp_path / "config", **{"client-certificate": "me.crt", "client-key": "me.key"}))
    assert (found.cert, found.key) == (b"CRT", b"KEY")


def test_token_file_is_read_again_after_a_minute(tmp_path) -> None:
    (tmp_path / "token").write_text("first\n")
    source = TokenSource(load(write(tmp_path / "config", tokenFile="token")))
    assert source.current(NOON) == "first"
    (tmp_path / "token").write_text("second\n")
    assert source.current(NOON + timedelta(seconds=30)) == "first"
    assert source.current(NOON + timedelta(seconds=61)) == "second"


def test_exec_plugin_token_is_cached_until_it_expires(tmp_path) -> None:
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


def test_error_names_the_failing_plugin(tmp_path) -> None:
    plugin = {"command": "no-such-plugin"}
    with pytest.raises(InputError, match="no-such-plugin"):
        TokenSource(load(write(tmp_path / "config", exec=plugin))).current(NOON)


def test_first_kubeconfig_wins(tmp_path, monkeypatch) -> None:
    first = write(tmp_path / "first", token="one")
    second = write(tmp_path / "second", token="two")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path / 'absent'}")
    assert load().token == "one"


def test_unknown_context_error_lists_the_contexts(tmp_path) -> None:
    with pytest.raises(InputError, match="it has: here"):
        load(write(tmp_path / "config"), "there")


def test_binary_file_is_no_kubeconfig(tmp_path) -> None:
    (tmp_path / "config").write_bytes(b"\xa7\x00\xff")
    with pytest.raises(InputError, match="not a kubeconfig: it is not UTF-8 text"):
        load(tmp_path / "config")


def test_error_names_the_missing_file(tmp_path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: [1]", "clusters must be a list of entries with a name and a cluster"),
        ("clusters: {a: b}", "clusters must be a list"),
        ("users: [{name: u, user: 3}]", "users must be a list"),
        ("- 1", "a mapping was expected"),
        ("a: [", "not a kubeconfig"),
        ("", "has no current context; name one with --context"),
    ],
)
def test_invalid_kubeconfig_is_refused_with_a_reason(tmp_path, text, problem) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(InputError, match=problem):
        load(tmp_path / "config")


def cluster(tmp_path, **cluster):
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    return tmp_path / "config"


def test_server_must_be_a_url(tmp_path) -> None:
    for fields in ({}, {"server": "nonsense"}):
        with pytest.raises(InputError, match="needs a server that starts with https"):
            load(cluster(tmp_path, **fields))


def test_unusable_certificates_are_refused_with_a_reason(tmp_path) -> None:
    server = "https://127.0.0.1:1"
    with pytest.raises(InputError, match="not base64"):
        load(cluster(tmp_path, server=server, **{"certificate-authority-data": "!!!"}))
    with pytest.raises(InputError, match=r"gone\.pem cannot be read"):
        load(cluster(tmp_path, server=server, **{"certificate-authority": "gone.pem"}))
    nonsense = base64.b64encode(b"no certificate").decode()
    with pytest.raises(InputError, match=r"certificates for .* cannot be used"):
        load(cluster(tmp_path, server=server, **{"certificate-authority-data": nonsense})).ssl_context()


def test_relative_plugin_is_found_and_its_error_output_is_reported(tmp_path) -> None:
    script = tmp_path / "plugin"
    script.write_text("#!/bin/sh\necho 'log in first' >&2\nexit 3\n")
    script.chmod(0o700)
    source = TokenSource(load(write(tmp_path / "config", exec={"command": "./plugin", "args": ["--password=secret"]})))
    with pytest.raises(InputError, match="it exited with code 3: log in first") as refusal:
        source.current(NOON)
    assert "--password" not in str(refusal.value)


def test_repr_of_credentials_has_no_secrets(tmp_path) -> None:
    found = load(write(tmp_path / "config", token="hush", **{"client-key-data": base64.b64encode(b"key").decode()}))
    assert repr(found) == "Credentials('https://127.0.0.1:6443')"


def test_changed_kubeconfig_is_read_again_after_a_minute(tmp_path) -> None:
    path = write(tmp_path / "config", token="one")
    source = TokenSource(load(path))
    assert source.current(NOON) == "one"
    write(path, token="two")
    os.utime(path, ns=(0, 1))
    assert source.current(NOON + timedelta(seconds=59)) == "one"
    assert source.current(NOON + timedelta(seconds=61)) == "two"


def test_kubeconfig_that_cannot_be_read_again_changes_nothing(tmp_path) -> None:
    path = write(tmp_path / "config", token="one")
    source = TokenSource(load(path))
    path.write_text("{")
    assert source.current(NOON) == "one"
    path.unlink()
    assert source.current(NOON + timedelta(minutes=2)) == "one"
    os.utime(write(path, token="two"), ns=(0, 1))
    assert source.current(NOON + timedelta(minutes=4)) == "two"


def test_renewed_certificates_of_a_kubeconfig_are_passed_on(tmp_path) -> None:
    def user(text: str) -> dict:
        encoded = base64.b64encode(text.encode()).decode()
        return {"client-certificate-data": encoded, "client-key-data": encoded}

    path = write(tmp_path / "config", **user("old"))
    source = TokenSource(load(path))
    source.current(NOON)
    assert source.cert is None
    os.utime(write(path, **user("new")), ns=(0, 1))
    source.current(NOON + timedelta(minutes=2))
    assert source.cert == (b"new", b"new")


def test_renewed_certificate_files_are_read_again(tmp_path) -> None:
    files = [tmp_path / "me.crt", tmp_path / "me.key"]
    for file in files:
        file.write_bytes(b"old")
    source = TokenSource(load(write(tmp_path / "config", **{"client-certificate": "me.crt", "client-key": "me.key"})))
    source.current(NOON)
    for file in files:
        file.write_bytes(b"new")
        os.utime(file, ns=(0, 1))
    source.current(NOON + timedelta(minutes=2))
    assert source.cert == (b"new", b"new")


@pytest.mark.parametrize("text", ["[" * 50_000, "a: &a [*a]", "a: &a [x]\nb: &b [*a, *a]\nc: {? [1] : 2}"])
def test_crafted_kubeconfig_is_an_input_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InputError, match="not a kubeconfig"):
        _read(file)
