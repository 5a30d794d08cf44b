"""A real Kubernetes control plane on loopback in its own directory, to start, break and stop in a test."""

import base64
import datetime as dt
import ipaddress
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OBTAIN = Path(__file__).resolve().parents[2] / "rig" / "obtain.py"
LOOPBACK = "127.0.0.1"
SECONDS_TO_START = 600
SECONDS_TO_STOP = 5
SILENT_NODE_SECONDS = 600
# The controllers that the embedded API server includes; Trimtab provides everything else on a host.
HOST_CONTROLLERS = "garbage-collector-controller,namespace-controller,certificatesigningrequest-signing-controller"
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}


class RigUnavailable(Exception):
    """The binaries are missing, or a component of the control plane did not start."""


def binaries_directory() -> Path:
    """The directory of the binaries; raises RigUnavailable with the missing ones when `make kube` is needed."""
    completed = subprocess.run([sys.executable, OBTAIN, "--check"], capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise RigUnavailable(f"{completed.stderr.strip()} (run make kube)")
    return Path(completed.stdout.strip())


def free_port() -> int:
    """A port below the ephemeral range, so that no client takes it while its server is stopped."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
            return port


class ControlPlaneProcess:
    """A process of the control plane: its command, its log and its state."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.command = command
        self.log = log
        self.running: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    def start(self) -> None:
        assert self.running is None or self.running.poll() is not None, f"{self.name} is already running"
        with self.log.open("ab") as log:
            # Its own process group: an interrupt at the terminal reaches only us, and we stop the processes in order.
            self.running = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.log.parent, process_group=0)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.running is None:
            return
        self.running.send_signal(how)
        try:
            self.running.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.running.kill()  # an API server waits a minute for open watches
            self.running.wait()
        self.running = None

    def wait_until(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not ready():
            exited = self.running is None or self.running.poll() is not None
            if exited or time.monotonic() > deadline:
                raise RigUnavailable(f"{self.name} {'exited' if exited else 'is not ready'}:\n{self.log_tail()}")
            time.sleep(0.1)

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


class SecondApiServer(NamedTuple):
    """A second API server of a cluster that is not in any Cluster object."""

    server: str
    kubeconfig: Path
    apiserver: ControlPlaneProcess


class RealControlPlane:
    """etcd and kube-apiserver, with the garbage collector, the namespace controller and the signer of certificates.

    With controllers it has every controller a cluster with nodes has; with a scheduler its pods are bound.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        controllers: bool = False,
        scheduler: bool = False,
        apiserver_flags: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.directory = directory / name
        self.kubeconfig = self.directory / "kubeconfig"
        self.binaries = binaries_directory()
        self.token = secrets.token_hex(16)
        self.etcd_url = f"http://{LOOPBACK}:{free_port()}"
        self.port = free_port()
        self.server = f"https://{LOOPBACK}:{self.port}"
        self.directory.mkdir(parents=True)
        write_certificates(self.directory)
        self._write_tokens()
        self.etcd = self._program("etcd", *self._etcd_flags())
        self.apiserver = self._program(
            "kube-apiserver", *self._apiserver_flags(self.port, controllers), *apiserver_flags
        )
        self.second_api = self._second_api(controllers)
        self.controller_processes = [self._program("kube-controller-manager", *self._controller_flags(controllers))]
        if scheduler:
            self.controller_processes.append(
                self._program("kube-scheduler", *self._controller_client_flags("system:kube-scheduler"))
            )

    @property
    def kubectl(self) -> tuple[str, ...]:
        return str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig)

    def start(self) -> None:
        try:
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in (*self.controller_processes, self.second_api.apiserver, self.apiserver, self.etcd):
            process.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_etcd(self) -> None:
        self.etcd.start()
        self.etcd.wait_until(lambda: responds(f"{self.etcd_url}/health"))

    def stop_etcd(self) -> None:
        self.etcd.stop()

    def start_apiserver(self) -> None:
        """Start it and restart the controllers, as controllers that lost their lease do.

        A controller that retries with backoff may miss that an owner was deleted and recreated, and then never collects the
        dependents of the first one.
        """
        self.apiserver.start()
        self.apiserver.wait_until(self.ready)
        for follower in self.controller_processes:
            follower.stop()
            follower.start()

    def stop_apiserver(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.apiserver.stop(how)

    def restart_apiserver(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.stop_apiserver(how)
        self.start_apiserver()

    def ready(self) -> bool:
        return self._responds(self.server)

    def start_second_api(self) -> Path:
        """Start a second API server over the same etcd for reads while the first is stopped; returns its kubeconfig."""
        self.second_api.apiserver.start()
        self.second_api.apiserver.wait_until(lambda: self._responds(self.second_api.server))
        return self.second_api.kubeconfig

    def stop_second_api(self) -> None:
        self.second_api.apiserver.stop()

    def issue_client_certificate(self, user: str, group: str) -> tuple[bytes, bytes]:
        """A client certificate of the cluster's CA for a user, and its key, as PEM."""
        return client_certificate(self.directory, user, group)

    def _responds(self, server: str) -> bool:
        return responds(f"{server}/readyz", self.token, self.directory / "ca.crt")

    def _second_api(self, controllers: bool) -> "SecondApiServer":
        port = free_port()
        server, kubeconfig = f"https://{LOOPBACK}:{port}", self.directory / "side-door.kubeconfig"
        content = self._kubeconfig_content("admin", self.token, server)
        write_private(kubeconfig, json.dumps(content).encode())
        flags = self._apiserver_flags(port, controllers)
        return SecondApiServer(server, kubeconfig, self._program("kube-apiserver", *flags, log="side-door"))

    def _program(self, name: str, *flags: str, log: str = "") -> ControlPlaneProcess:
        return ControlPlaneProcess([str(self.binaries / name), *flags], self.directory / f"{log or name}.log")

    def _etcd_flags(self) -> tuple[str, ...]:
        peer = f"http://{LOOPBACK}:{free_port()}"
        return (
            f"--name={self.name}",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={self.name}={peer}",
            "--unsafe-no-fsync",  # only a machine crash could lose data, a stopped process does not
            "--log-level=warn",
        )

    def _apiserver_flags(self, port: int, controllers: bool) -> tuple[str, ...]:
        keys = self.directory
        return (
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",  # loopback addresses are not allowed as endpoints
            f"--secure-port={port}",
            f"--tls-cert-file={keys / 'server.crt'}",
            f"--tls-private-key-file={keys / 'server.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            f"--token-auth-file={keys / 'tokens.csv'}",
            f"--service-account-key-file={keys / 'accounts.key'}",
            f"--service-account-signing-key-file={keys / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            # Without the service account controller no pod would be admitted.
            *(() if controllers else ("--disable-admission-plugins=ServiceAccount",)),
        )

    def _controller_flags(self, controllers: bool) -> tuple[str, ...]:
        return (
            *self._controller_client_flags("system:kube-controller-manager"),
            f"--controllers={'*' if controllers else HOST_CONTROLLERS}",
            "--use-service-account-credentials=true",  # Kubernetes' default roles are bound to the individual controllers
            f"--service-account-private-key-file={self.directory / 'accounts.key'}",
            f"--root-ca-file={self.directory / 'ca.crt'}",
            f"--cluster-signing-cert-file={self.directory / 'ca.crt'}",
            f"--cluster-signing-key-file={self.directory / 'ca.key'}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            # A two-minute API server outage must not make nodes NotReady.
            f"--node-monitor-grace-period={SILENT_NODE_SECONDS}s",
        )

    def _controller_client_flags(self, user: str) -> tuple[str, ...]:
        # Without leader election they survive an API server outage instead of exiting.
        return f"--kubeconfig={self._kubeconfig_of(user)}", "--leader-elect=false", "--secure-port=0"

    def _kubeconfig_of(self, user: str) -> Path:
        return self.kubeconfig if user == "admin" else self.directory / f"{user.replace(':', '-')}.kubeconfig"

    def _write_tokens(self) -> None:
        rows = []
        for user, groups in USERS.items():
            token = self.token if user == "admin" else secrets.token_hex(16)
            rows.append(f'{token},{user},{user},"{groups}"\n')
            content = self._kubeconfig_content(user, token, self.server)
            write_private(self._kubeconfig_of(user), json.dumps(content).encode())
        write_private(self.directory / "tokens.csv", "".join(rows).encode())

    def _kubeconfig_content(self, user: str, token: str, server: str) -> dict[str, object]:
        authority = base64.b64encode((self.directory / "ca.crt").read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "current-context": self.name,
        }


def kubectl(plane: RealControlPlane, *arguments: str, given: str | None = None) -> str:
    done = subprocess.run([*plane.kubectl, *arguments], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def responds(url: str, token: str = "", authority: Path | None = None) -> bool:
    trust = ssl.create_default_context(cafile=str(authority)) if authority else None
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=trust) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    # The API server reads the public key in this format only.
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    write_private(path, key.private_bytes(serialization.Encoding.PEM, form, plain))
    return key


def certificate_name(name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    return x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), *parts] if group else parts)


def certificate_builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(certificate_name("rig"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=30))
    )


def write_certificates(directory: Path) -> None:
    """A CA, the API server's certificate signed by it, and the key that signs service account tokens."""
    write_key(directory / "accounts.key")
    authority_key = write_key(directory / "ca.key")
    server_key = write_key(directory / "server.key")
    key_usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    authority = (
        certificate_builder(certificate_name("rig"), authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost"), x509.DNSName("kubernetes")]
    server = (
        certificate_builder(certificate_name("kube-apiserver"), server_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (directory / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (directory / "server.crt").write_bytes(server.public_bytes(serialization.Encoding.PEM))


def client_certificate(directory: Path, user: str, group: str) -> tuple[bytes, bytes]:
    """A client certificate that authenticates a user and group with the API server of this directory's CA."""
    authority_key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    key = write_key(directory / f"{user}.key")
    signed = (
        certificate_builder(certificate_name(user, group), key)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM), (directory / f"{user}.key").read_bytes()
