"""What a simulated container does, by convention from its image, command and arguments.

Known are shells with a script (`sh -c`), common utilities, `pause`, web servers (`nginx`, `httpd`) and the commands of
the test image `agnhost`. A container that is not known has no program: its behaviour then follows the pace of the
cluster and the annotations of the pod.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import dropwhile
from typing import NamedTuple, TypeAlias

import orjson

from trimtab.api.duration import parse_duration
from trimtab.api.value import Raw
from trimtab.server.admission.dynamic.service_calls import ServerAnswer, ServerRequest
from trimtab.simulate.containers.connections import Listener, send_chunks
from trimtab.simulate.containers.files import Files
from trimtab.simulate.containers.input_buffer import InputBuffer
from trimtab.simulate.containers.shell import (
    CHARACTERS_PER_PARSING_STEP,
    SHELLS,
    Run,
    Shell,
    check_is_simulated,
    script_of,
)
from trimtab.simulate.containers.shell_state import EPOCH, Effort
from trimtab.simulate.containers.shell_syntax import Node, UnsupportedScript, parse_script
from trimtab.simulate.containers.utilities import UTILITIES
from trimtab.simulate.containers.webhook_programs import WEBHOOK_SERVERS, WebhookOptions

FOREVER_SECONDS = 1e9
_REFERENCE = re.compile(r"\$\$|\$\((\w[\w.-]*)\)")
_BROKEN_SOURCES = frozenset(("invalid", "fake"))
_BROKEN_TAGS = frozenset(("404", "non-existent", "nonexistent", "does-not-exist", "invalid"))


class ImageName(NamedTuple):
    registry: str
    name: str
    """The last part of the repository."""
    tag: str


def parse_image(reference: str) -> ImageName:
    path, _, _ = reference.partition("@")
    first, slash, _ = path.partition("/")
    registry = first if slash and ("." in first or ":" in first or first == "localhost") else ""
    last = path.rpartition("/")[2]
    name, _, tag = last.partition(":")
    return ImageName(registry, name, tag)


def pull_error(reference: str) -> str:
    """Why the image cannot be pulled, by convention: a registry or owner `invalid` or `fake`, or a tag such as `404`."""
    image = parse_image(reference)
    source, slash, _ = reference.partition("/")
    labels = source.partition(":")[0].split(".") if slash else [""]
    if not _BROKEN_SOURCES.isdisjoint((labels[0], labels[-1])) or image.tag in _BROKEN_TAGS:
        return f'failed to pull image "{reference}": not found'
    return ""


@dataclass
class ContainerContext:
    """What a program of a container can see."""

    environment: dict[str, str]
    files: Files
    rng: random.Random
    pod_name: str = ""
    stdin: InputBuffer = field(default_factory=lambda: InputBuffer(is_closed=True))
    now: Callable[[], datetime] = lambda: EPOCH
    effort: Effort = field(default_factory=Effort)
    """What the program of the container has done."""


Program: TypeAlias = Callable[[Callable[[str], None]], Run]
"""Started with a function that writes to the log, it yields seconds of sleep and returns an exit code."""


class Server(NamedTuple):
    """A program that answers HTTP requests."""

    respond: Callable[[ServerRequest], ServerAnswer]
    ports: tuple[int, ...] = ()
    """Where it listens; empty: not known, so that every port is accepted."""


class Launch(NamedTuple):
    """The program of a container, and what answers requests to it."""

    program: Program
    server: Server | None = None
    listener: Listener | None = None
    """The connections of a program that reads and writes bytes instead."""
    listening_port: int = 0
    termination_seconds: Callable[[], float] = lambda: 0.0
    """How long it runs on after SIGTERM."""


def has_conventions(container: Raw) -> bool:
    """Whether image, command or probes say something about what the container does."""
    return bool(
        container.get("command")
        or container.get("args")
        or parse_image(container.get("image", "")).name in KNOWN_IMAGES
        or any(container.get(field) for field in ("readinessProbe", "livenessProbe", "startupProbe"))
    )


def find_launch(container: Raw, context: ContainerContext) -> Launch | None:
    """How the container runs; None if its program is not known."""
    arguments = command_line(container, context.environment)
    if not arguments:
        return _image_launch(parse_image(container.get("image", "")).name, context)
    name = arguments[0].rpartition("/")[2]
    try:
        if name in SHELLS:
            script = script_of(arguments[1:])
            context.effort.add(len(script) // CHARACTERS_PER_PARSING_STEP)
            node = parse_script(script)
            check_is_simulated(node)
            return _script_launch(context, node)
        if name in UTILITIES or name in ("sleep", "read"):
            return Launch(lambda write: _call(_shell(context, write), arguments, write))
    except UnsupportedScript:
        return None
    if name == "nsenter":
        return _launch_in_namespace(arguments[1:], context)
    if name == "pause":
        return Launch(_run_forever)
    if name == "agnhost":
        return _agnhost_launch(arguments[1:], context)
    if name in _WEB_ROOTS:
        return _image_launch(name, context)
    return None


def _launch_in_namespace(arguments: Sequence[str], context: ContainerContext) -> Launch | None:
    """`nsenter --mount=PATH -- COMMAND`: the command sees the files of the node, if they are mounted in the container."""
    command = list(dropwhile(lambda one: one.startswith("-"), arguments))
    files = context.files.of_mount_namespace(_flag(arguments[: len(arguments) - len(command)], "mount", "m"))
    return find_launch({"command": command}, replace(context, files=files)) if files is not None and command else None


def _script_launch(context: ContainerContext, node: Node) -> Launch:
    started: list[Shell] = []

    def program(write: Callable[[str], None]) -> Run:
        started[:] = [_shell(context, write)]
        return started[0].run(node)

    return Launch(program, termination_seconds=lambda: started[0].termination_seconds() if started else 0.0)


def command_line(container: Raw, environment: Mapping[str, str]) -> list[str]:
    """Command and arguments with `$(VARIABLE)` replaced; the entry point of a known image comes first."""
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    image = parse_image(container.get("image", "")).name
    if not container.get("command") and image == "agnhost":
        arguments = ["agnhost", *(arguments or ["pause"])]

    def replace(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else environment.get(match[1], match[0])

    return [_REFERENCE.sub(replace, one) for one in arguments]


def _shell(context: ContainerContext, write: Callable[[str], None]) -> Shell:
    return Shell(
        dict(context.environment),
        context.files,
        context.rng,
        write,
        effort=context.effort,
        stdin=context.stdin,
        now=context.now,
    )


def _call(shell: Shell, arguments: Sequence[str], write: Callable[[str], None]) -> Run:
    return (yield from shell.call(arguments, write))


def _run_forever(write: Callable[[str], None]) -> Run:
    while True:
        yield FOREVER_SECONDS


def _pause(write: Callable[[str], None]) -> Run:
    """The command of agnhost, which says that it has started."""
    write("Paused\n")
    return (yield from _run_forever(write))


_WEB_ROOTS = {
    "httpd": "/usr/local/apache2/htdocs",
    "kitten": "/",
    "nautilus": "/",
    "nginx": "/usr/share/nginx/html",
}
_STARTUP_LINES = {
    "httpd": "AH00094: Command line: 'httpd -D FOREGROUND'\n",
    "nginx": "/docker-entrypoint.sh: Configuration complete; ready for start up\n",
}
"""What the servers log when they start."""
_IMAGE_FILES = {name: {"data.json": f'{{"image": "{name}.jpg"}}\n'} for name in ("kitten", "nautilus")}
"""Files of the two images with which Kubernetes demonstrates updates, below their document root."""
KNOWN_IMAGES = frozenset(("agnhost", "pause", *_WEB_ROOTS))
_INDEX_PAGE = "<html><body><h1>It works!</h1></body></html>\n"


def _image_launch(image: str, context: ContainerContext) -> Launch | None:
    if image == "pause":
        return Launch(_run_forever)
    root = _WEB_ROOTS.get(image)
    if root is None:
        return None
    for name, content in {"index.html": _INDEX_PAGE, **_IMAGE_FILES.get(image, {})}.items():
        if context.files.read(f"{root}/{name}") is None:
            context.files.write(f"{root}/{name}", content)

    def respond(request: ServerRequest) -> ServerAnswer:
        page = context.files.read(f"{root}/{request.path.strip('/') or 'index.html'}")
        return ServerAnswer(404, "not found\n") if page is None else ServerAnswer(200, page)

    def run(write: Callable[[str], None]) -> Run:
        if image in _STARTUP_LINES:
            write(_STARTUP_LINES[image])
        return (yield from _run_forever(write))

    return Launch(run, Server(respond, (80,)))


# agnhost

_PORTS = {"netexec": 8080, "serve-hostname": 9376, "test-webserver": 80}
_SERVERS = ("netexec", "serve-hostname", "test-webserver", "nettest", "guestbook", "liveness")
_PORTER_VARIABLE = re.compile(r"SERVE_(TLS_)?PORT_(\d{1,5})")
LOGGED_METHODS = ("GET", "POST", "PUT")
LOGGED_NAMESPACES = ("kube-system", "default", "ns")


def _agnhost_launch(arguments: Sequence[str], context: ContainerContext) -> Launch | None:
    name, flags = (arguments[0], arguments[1:]) if arguments else ("pause", ())
    if name == "pause":
        return Launch(_pause)
    if name in _SERVERS:
        port = _flag(flags, "http-port", "port")
        known = int(port[:5]) if port.isdecimal() else _PORTS.get(name, 0)
        ports = (known,) if known else ()
        return Launch(_run_forever, Server(lambda request: _answer(name, request.path, context), ports))
    if name == "porter":
        return Launch(_run_forever, _porter(context.environment, in_json="--json-response" in flags))
    if name in WEBHOOK_SERVERS:
        return _webhook_launch(name, flags, context)
    if name == "logs-generator":
        return Launch(lambda write: _generate_logs(flags, context.rng, write))
    if name == "port-forward-tester":
        listener, port = Listener(), context.environment.get("BIND_PORT", "")
        return Launch(
            lambda write: send_chunks(listener, context.environment, write),
            listener=listener,
            listening_port=int(port[:5]) if port.isdecimal() else 0,
        )
    if name == "mounttest":
        return Launch(lambda write: _test_mounts(flags, context.files, write))
    if name == "entrypoint-tester":
        return Launch(lambda write: _print_arguments(arguments, write))
    return None


def _answer(command: str, path: str, context: ContainerContext) -> ServerAnswer:
    if command == "serve-hostname" or path.rstrip("/") == "/hostname":
        return ServerAnswer(200, context.pod_name)
    if path.strip("/") in ("", "healthz", "readyz", "livez") or command != "netexec":
        return ServerAnswer(200, "ok\n")
    return ServerAnswer(200, "") if path.startswith("/echo") else ServerAnswer(404, "not found\n")


def _porter(environment: Mapping[str, str], *, in_json: bool) -> Server:
    """`agnhost porter`: serves the value of every variable `SERVE_PORT_N` and `SERVE_TLS_PORT_N` on port N."""
    found = {match[0]: match for name in environment if (match := _PORTER_VARIABLE.fullmatch(name))}
    values = {int(match[2]): (bool(match[1]), environment[name]) for name, match in found.items()}

    def respond(request: ServerRequest) -> ServerAnswer:
        with_tls, value = values.get(request.port) or next(iter(values.values()), (False, ""))
        if with_tls and not request.tls:
            return ServerAnswer(400, "Client sent an HTTP request to an HTTPS server.\n")
        if not in_json:
            return ServerAnswer(200, value)
        answer = orjson.dumps({"Method": request.method, "Body": value}).decode()
        return ServerAnswer(200, answer, media_type="application/json")

    return Server(respond, tuple(values))


def _webhook_launch(name: str, flags: Sequence[str], context: ContainerContext) -> Launch:
    """A server with TLS whose certificate is in the files that the flags name; without them it cannot start."""
    certificate, key = (context.files.read(_flag(flags, f"tls-{file}-file")) for file in ("cert", "private-key"))
    if not certificate or not key:
        return Launch(_fail_to_load_certificate)
    review, options = WEBHOOK_SERVERS[name], WebhookOptions(_flag(flags, "sidecar-image"))

    def respond(request: ServerRequest) -> ServerAnswer:
        return review(request.path.rstrip("/"), request.body, options)._replace(certificate=certificate, key=key)

    return Launch(_run_forever, Server(respond))


def _fail_to_load_certificate(write: Callable[[str], None]) -> Run:
    write("cannot load the certificate of the server\n")
    yield 0.0
    return 255


def _flag(flags: Sequence[str], *names: str) -> str:
    """The value of a flag, written as `--name value` or `--name=value`."""
    for number, flag in enumerate(flags):
        name, equals, value = flag.lstrip("-").partition("=")
        if name in names:
            return value if equals else (flags[number + 1] if number + 1 < len(flags) else "")
    return ""


def _generate_logs(flags: Sequence[str], rng: random.Random, write: Callable[[str], None]) -> Run:
    total = _flag(flags, "log-lines-total", "t")
    duration = parse_duration(_flag(flags, "run-duration", "d") or "0s")
    seconds = duration.total_seconds()
    if not total.isdecimal() or not int(total[:9]) or seconds <= 0:
        write("the number of lines and the duration must be positive\n")
        return 255
    for number in range(int(total[:9])):
        pod = "".join(rng.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(rng.randrange(3, 5)))
        url = f"/api/v1/namespaces/{rng.choice(LOGGED_NAMESPACES)}/pods/{pod}"
        write(f"{number} {rng.choice(LOGGED_METHODS)} {url} {rng.randrange(200, 600)}\n")
        yield seconds / int(total[:9])
    return 0


def _test_mounts(flags: Sequence[str], files: Files, write: Callable[[str], None]) -> Run:
    """Print contents and modes of files, and write new ones, as the flags ask."""
    code = 0
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        for path in filter(None, value.split(",")):
            content = files.read(path)
            if name in ("file_content", "file_content_in_loop"):
                shown = f'content of file "{path}": {content}\n'
                write(shown if content is not None else f'error reading file content for "{path}"\n')
                code = code if content is not None else 1
            elif name == "file_perm" and content is not None:
                write(f'perms of file "{path}": {files.owner.mode}\n')
            elif name == "file_owner" and content is not None:
                write(f'owner UID of "{path}": {files.owner.user}\nowner GID of "{path}": {files.owner.group}\n')
            elif name in ("new_file_0644", "new_file_0666"):
                files.write(path, "mount-tester new file\n")
    yield 0.0
    return code


def _print_arguments(arguments: Sequence[str], write: Callable[[str], None]) -> Run:
    write(f"[/agnhost {' '.join(arguments)}]\n")
    yield 0.0
    return 0
