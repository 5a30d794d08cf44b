"""The administrator's kubeconfig."""

import base64
import errno
import stat
from pathlib import Path

import pytest
import yaml

from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.kubeconfig import write_kubeconfig


def test_kubeconfig_has_a_context_per_server_and_the_first_is_current(tmp_path: Path) -> None:
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name).write_bytes(name.encode())
    path = tmp_path / "kubeconfig"
    write_kubeconfig(
        path, CertificateAuthority(tmp_path), {"trimtab": "https://a:1", "member1": "https://a:1/clusters/member1"}
    )
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "trimtab"
    assert [context["name"] for context in config["contexts"]] == ["trimtab", "member1"]
    assert config["clusters"][1]["cluster"]["server"] == "https://a:1/clusters/member1"
    assert base64.b64decode(config["users"][0]["user"]["client-key-data"]) == b"admin.key"


def test_kubeconfig_that_is_current_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name).write_bytes(name.encode())
    path, authority = tmp_path / "kubeconfig", CertificateAuthority(tmp_path)
    write_kubeconfig(path, authority, {"trimtab": "https://a:1"})
    path.chmod(0o644)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("trimtab.server.auth.kubeconfig.write_secret", refuse)
    write_kubeconfig(path, authority, {"trimtab": "https://a:1"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OSError, match="No space left"):
        write_kubeconfig(path, authority, {"trimtab": "https://a:2"})
    assert "https://a:1" in path.read_text()
