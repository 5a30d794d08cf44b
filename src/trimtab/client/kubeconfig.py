"""Who we are to an API server: kubeconfig files, exec plugins, and the service account of a pod."""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trimtab.errors import InputFault

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_SECONDS = 60
TOKEN_FILE_SECONDS = 60


class Credentials(NamedTuple):
    """Everything needed to talk to one API server as one user."""

    server: str
    ca: bytes = b""
    skip_verify: bool = False
    server_name: str = ""
    proxy: str = ""
    cert: bytes = b""
    key: bytes = b""
    token: str = ""
    token_file: str = ""
    exec: Mapping[str, Any] | None = None
    namespace: str = "default"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS side; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        if self.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            load_client_certificate(context, self.cert, self.key)
        return context


def load_client_certificate(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """OpenSSL reads key pairs only from files, so they exist for a moment, readable by us alone."""
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(cert + b"\n" + key)
        context.load_cert_chain(path)


def load(path: str | os.PathLike[str] | None = None, context: str = "") -> Credentials:
    """The credentials of a context: of `path`, else of $KUBECONFIG, else ~/.kube/config, else of the pod we run in."""
    if path:
        files = [Path(path)]
    elif listed := os.environ.get("KUBECONFIG"):
        files = [Path(part) for part in listed.split(os.pathsep) if part]
    else:
        files = [Path.home() / ".kube" / "config"]
        if not files[0].exists() and (IN_CLUSTER / "token").exists():
            return in_cluster()
    return _resolve(_merge(files), context)


def in_cluster() -> Credentials:
    """The service account that Kubernetes mounts into every pod; its token is read anew as it is rotated."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InputFault("not running inside a cluster: KUBERNETES_SERVICE_HOST is not set")
    host = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{host}:{port}",
        ca=(IN_CLUSTER / "ca.crt").read_bytes(),
        token_file=str(IN_CLUSTER / "token"),
        namespace=(IN_CLUSTER / "namespace").read_text().strip() if (IN_CLUSTER / "namespace").exists() else "default",
    )


def _merge(files: list[Path]) -> dict[str, Any]:
    """Several files as kubectl reads them: the first to name an entry wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    found = False
    for file in files:
        if not file.exists():
            continue
        found = True
        try:
            document = yaml.safe_load(file.read_text()) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputFault(f"{file}: not a kubeconfig: {error}") from error
        if not isinstance(document, dict):
            raise InputFault(f"{file}: not a kubeconfig: a mapping was expected")
        for section, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in document.get(section) or []:
                merged[section].setdefault(entry["name"], (entry.get(inner) or {}, file.parent))
        merged["current-context"] = merged["current-context"] or document.get("current-context", "")
    if not found:
        raise InputFault(f"no kubeconfig: {', '.join(map(str, files))} does not exist")
    return merged


def _resolve(config: dict[str, Any], context: str) -> Credentials:
    chosen = context or config["current-context"]
    if chosen not in config["contexts"]:
        known = ", ".join(sorted(config["contexts"])) or "none"
        raise InputFault(f"the kubeconfig has no context {chosen!r} (it has: {known})")
    names, _ = config["contexts"][chosen]
    try:
        cluster, cluster_folder = config["clusters"][names["cluster"]]
        user, user_folder = config["users"].get(names.get("user", ""), ({}, Path()))
    except KeyError as missing:
        raise InputFault(f"context {chosen!r} names a cluster that the kubeconfig does not have: {missing}") from None
    return Credentials(
        server=str(cluster.get("server", "")).rstrip("/"),
        ca=_bytes(cluster, "certificate-authority", cluster_folder),
        skip_verify=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
        cert=_bytes(user, "client-certificate", user_folder),
        key=_bytes(user, "client-key", user_folder),
        token=user.get("token", ""),
        token_file=str(user_folder / user["tokenFile"]) if user.get("tokenFile") else "",
        exec=user.get("exec"),
        namespace=names.get("namespace") or "default",
    )


def _bytes(section: Mapping[str, Any], name: str, folder: Path) -> bytes:
    if inline := section.get(f"{name}-data"):
        return base64.b64decode(inline)
    return (folder / section[name]).read_bytes() if section.get(name) else b""


class TokenSource:
    """The bearer token as it is now: fixed, from a file that is rotated, or from an exec plugin until it expires."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._held = ""
        self._until: datetime | None = None
        self.cert: tuple[bytes, bytes] | None = None

    def current(self, now: datetime) -> str:
        credentials = self._credentials
        if credentials.exec is None and not credentials.token_file:
            return credentials.token
        if self._until is None or now >= self._until:
            if credentials.exec is not None:
                self._run_plugin(credentials.exec, now)
            else:
                self._held = Path(credentials.token_file).read_text().strip()
                self._until = now + timedelta(seconds=TOKEN_FILE_SECONDS)
        return self._held

    def renew(self) -> bool:
        """Forget a token that the server refused; False where there is no other to be had."""
        asked_for = self._until is not None
        self._until = None
        return asked_for

    def _run_plugin(self, plugin: Mapping[str, Any], now: datetime) -> None:
        version = plugin.get("apiVersion", "client.authentication.k8s.io/v1")
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        extra = {entry["name"]: entry["value"] for entry in plugin.get("env") or []}
        try:
            # A list, never a shell: the kubeconfig names a program and its arguments, nothing else.
            ran = subprocess.run(  # noqa: S603
                [plugin["command"], *(plugin.get("args") or [])],
                env=os.environ | extra | {"KUBERNETES_EXEC_INFO": json.dumps(info)},
                capture_output=True,
                timeout=EXEC_SECONDS,
                check=True,
            )
            status = json.loads(ran.stdout)["status"]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            raise InputFault(f"the exec plugin {plugin.get('command')!r} gave no credentials: {error}") from error
        self._held = status.get("token", "")
        if status.get("clientCertificateData"):
            self.cert = (status["clientCertificateData"].encode(), status.get("clientKeyData", "").encode())
        expiry = status.get("expirationTimestamp")
        self._until = datetime.fromisoformat(expiry) if expiry else datetime.max.replace(tzinfo=UTC)
