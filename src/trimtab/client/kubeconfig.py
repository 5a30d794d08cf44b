"""Credentials for API servers: kubeconfig files, exec plugins, and the service account of a pod."""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.api.yaml_documents import FILE, YamlError, load_yaml
from trimtab.errors import InputError

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_SECONDS = 60
TOKEN_FILE_SECONDS = 60
KUBECONFIG_SECONDS = 60


class ExecPlugin(NamedTuple):
    """A program that returns credentials."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = "client.authentication.k8s.io/v1"


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
    read_token: Callable[[], str] | None = None
    """Returns the current token; for tokens that are renewed while the client is used."""
    exec: ExecPlugin | None = None
    namespace: str = "default"
    files: tuple[Path, ...] = ()
    """The kubeconfig files that these were read from; they are read again when they change."""
    context: str = ""
    certificate_files: tuple[Path, ...] = ()
    """The files of certificates and keys that the kubeconfig names."""

    def __repr__(self) -> str:
        """Omits secrets: what is printed ends up in logs."""
        return f"Credentials({self.server!r})"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        try:
            return self._ssl_context()
        except (ssl.SSLError, ValueError) as error:
            raise InputError(f"the certificates for {self.server} cannot be used: {error}") from error

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        if self.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            load_client_certificate(context, self.cert, self.key)
        return context


def load_client_certificate(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """OpenSSL reads key pairs only from files, so write a temporary one that only this user can read."""
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(cert + b"\n" + key)
        context.load_cert_chain(path)


def load(path: str | os.PathLike[str] | None = None, context: str = "") -> Credentials:
    """The credentials of a context from `path`, $KUBECONFIG, ~/.kube/config or the pod's service account, in this order."""
    if path:
        files = [Path(path)]
    elif listed := os.environ.get("KUBECONFIG"):
        files = [Path(part) for part in listed.split(os.pathsep) if part]
    else:
        files = [Path.home() / ".kube" / "config"]
        if not files[0].exists() and (IN_CLUSTER / "token").exists():
            return in_cluster()
    return _resolve(_merge(files), context)._replace(files=tuple(files), context=context)


def in_cluster() -> Credentials:
    """The service account that Kubernetes mounts into every pod; its token is re-read because it is rotated."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InputError("not running inside a cluster: KUBERNETES_SERVICE_HOST is not set")
    host = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{host}:{port}",
        ca=(IN_CLUSTER / "ca.crt").read_bytes(),
        token_file=str(IN_CLUSTER / "token"),
        namespace=(IN_CLUSTER / "namespace").read_text().strip() if (IN_CLUSTER / "namespace").exists() else "default",
    )


def _merge(files: list[Path]) -> dict[str, Any]:
    """Merge several files as kubectl does: the first file that defines an entry wins."""
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    found = False
    for file in files:
        if not file.exists():
            continue
        found = True
        document = _read(file)
        for section, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for name, entry in _entries(document, section, inner, file):
                merged[section].setdefault(name, (entry, file.parent))
        merged["current-context"] = merged["current-context"] or document.get("current-context", "")
    if not found:
        missing = ", ".join(map(str, files))
        raise InputError(
            f"no kubeconfig: {missing} does not exist; name one with --kubeconfig or $KUBECONFIG "
            "(trimtab up writes one into its data directory)"
        )
    return merged


def _read(file: Path) -> dict[str, Any]:
    try:
        document = load_yaml(file.read_text(), FILE) or {}
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a kubeconfig: it is not UTF-8 text") from error
    except YamlError as error:
        raise InputError(f"{file}: not a kubeconfig: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{file}: not a kubeconfig: a mapping was expected")
    return document


def _entries(document: Mapping[str, Any], section: str, inner: str, file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = document.get(section) or []
    for entry in listed if isinstance(listed, list) else [listed]:
        content = (entry.get(inner) or {}) if isinstance(entry, dict) else None
        if not isinstance(content, dict) or not isinstance(entry.get("name"), str):
            raise InputError(f"{file}: not a kubeconfig: {section} must be a list of entries with a name and a {inner}")
        yield entry["name"], content


def _resolve(config: dict[str, Any], context: str) -> Credentials:
    name = context or config["current-context"]
    if name not in config["contexts"]:
        known = ", ".join(sorted(config["contexts"])) or "none"
        if not name:
            raise InputError(f"the kubeconfig has no current context; name one with --context (it has: {known})")
        raise InputError(f"the kubeconfig has no context {name!r} (it has: {known})")
    names, _ = config["contexts"][name]
    try:
        cluster, cluster_folder = config["clusters"][names["cluster"]]
        user, user_folder = config["users"].get(names.get("user", ""), ({}, Path()))
    except KeyError as missing:
        raise InputError(f"context {name!r} refers to a cluster that the kubeconfig does not have: {missing}") from None
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InputError(
            f"the cluster of context {name!r} needs a server that starts with https:// or http://, not {server!r}"
        )
    return Credentials(
        server=server,
        ca=_read_bytes(cluster, "certificate-authority", cluster_folder),
        skip_verify=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name", ""),
        proxy=cluster.get("proxy-url", ""),
        cert=_read_bytes(user, "client-certificate", user_folder),
        key=_read_bytes(user, "client-key", user_folder),
        token=user.get("token", ""),
        token_file=str(user_folder / user["tokenFile"]) if user.get("tokenFile") else "",
        exec=_exec_plugin(user["exec"], user_folder) if user.get("exec") else None,
        namespace=names.get("namespace") or "default",
        certificate_files=(
            *_named_files(cluster, cluster_folder, "certificate-authority"),
            *_named_files(user, user_folder, "client-certificate", "client-key"),
        ),
    )


def _named_files(section: Mapping[str, Any], folder: Path, *names: str) -> Iterator[Path]:
    return (folder / str(section[name]) for name in names if section.get(name) and not section.get(f"{name}-data"))


def _read_bytes(section: Mapping[str, Any], name: str, folder: Path) -> bytes:
    if inline := section.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(str(inline).split()), validate=True)
        except ValueError as error:
            raise InputError(f"{name}-data of the kubeconfig is not base64: {error}") from error
    if not section.get(name):
        return b""
    file = folder / str(section[name])
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{name} {file} cannot be read: {error.strerror}") from error


def _exec_plugin(plugin: Any, folder: Path) -> ExecPlugin:
    """The exec plugin; a relative path is relative to the kubeconfig, as in kubectl."""
    command = plugin.get("command") if isinstance(plugin, dict) else None
    if not isinstance(command, str) or not command:
        raise InputError("the exec section of the kubeconfig has no command")
    variables = [entry for entry in plugin.get("env") or [] if isinstance(entry, dict)]
    return ExecPlugin(
        command=str((folder / command).absolute()) if os.sep in command else command,
        args=tuple(str(argument) for argument in plugin.get("args") or []),
        env={str(entry.get("name")): str(entry.get("value", "")) for entry in variables},
        api_version=plugin.get("apiVersion") or ExecPlugin._field_defaults["api_version"],
    )


class TokenSource:
    """The current bearer token: fixed, from a file that is rotated, or from an exec plugin until it expires."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._token = ""
        self._valid_until: datetime | None = None
        self.cert: tuple[bytes, bytes] | None = None
        """A new client certificate and its key, to be used from now on."""
        self.ca = b""
        """A new certificate of the authority, to be trusted from now on."""
        self._changed_at = _change_times(credentials)
        self._next_look: datetime | None = None

    def _reread_changed_files(self, now: datetime) -> None:
        """Take renewed certificates and tokens from the kubeconfig; keep the old ones while it cannot be read."""
        if not self._credentials.files or (self._next_look is not None and now < self._next_look):
            return
        self._next_look = now + timedelta(seconds=KUBECONFIG_SECONDS)
        changed_at = _change_times(self._credentials)
        if changed_at == self._changed_at:
            return
        old = self._credentials
        try:
            new = _resolve(_merge(list(old.files)), old.context)._replace(files=old.files, context=old.context)
        except InputError:
            return
        self._changed_at = _change_times(new)
        if new.server != old.server:  # another server needs another client
            return
        self._credentials, self._valid_until = new, None
        self.cert = (new.cert, new.key) if new.cert and (new.cert, new.key) != (old.cert, old.key) else None
        self.ca = new.ca if new.ca != old.ca else b""

    def current(self, now: datetime) -> str:
        self._reread_changed_files(now)
        credentials = self._credentials
        if credentials.read_token is not None:
            return credentials.read_token()
        if credentials.exec is None and not credentials.token_file:
            return credentials.token
        if self._valid_until is None or now >= self._valid_until:
            if credentials.exec is not None:
                self._run_plugin(credentials.exec)
            else:
                self._token = _read_token_file(credentials.token_file)
                self._valid_until = now + timedelta(seconds=TOKEN_FILE_SECONDS)
        return self._token

    def invalidate(self) -> bool:
        """Drop a token that the server refused; False if there is no other source."""
        can_be_renewed = self._valid_until is not None
        self._valid_until = None
        return can_be_renewed

    def _run_plugin(self, plugin: ExecPlugin) -> None:
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        try:
            # A list, never a shell: the kubeconfig names a program and its arguments, nothing else.
            process = subprocess.run(  # noqa: S603
                [plugin.command, *plugin.args],
                env=os.environ | plugin.env | {"KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=EXEC_SECONDS,
                check=True,
            )
            status = json.loads(process.stdout)["status"]
            expiry = status.get("expirationTimestamp")
            self._valid_until = datetime.fromisoformat(expiry) if expiry else datetime.max.replace(tzinfo=UTC)
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"the exec plugin {plugin.command!r} returned no credentials: {_failure_text(error)}"
            ) from error
        self._token = status.get("token", "")
        if status.get("clientCertificateData"):
            self.cert = (status["clientCertificateData"].encode(), status.get("clientKeyData", "").encode())


def _change_times(credentials: Credentials) -> list[int]:
    times = []
    for file in (*credentials.files, *credentials.certificate_files):
        try:
            times.append(file.stat().st_mtime_ns)
        except OSError:
            times.append(0)
    return times


def _read_token_file(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the token file {file} cannot be read: {error}") from error


def _failure_text(error: Exception) -> str:
    """The plugin's own error message, if any; never its arguments, which may be secret."""
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return f"it exited with code {error.returncode}" + (f": {lines[-1][:300]}" if lines else "")
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not finish within {EXEC_SECONDS} seconds"
    return str(error)
