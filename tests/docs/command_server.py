"""Runs the `trimtab` commands of pages in forks of one process that has imported them all.

Most of the time of a short command is the import of its modules. The command `trimtab` of a page is a small client, which
hands its arguments, directory, environment and standard streams over and exits with the code of the fork.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.cli import commands
from trimtab.cli.main import main

STREAMS = 3
SIZE_BYTES = 4
CLIENT = """#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({path!r})
asked = {{"arguments": sys.argv[1:], "directory": os.getcwd(), "environment": dict(os.environ)}}
request = json.dumps(asked).encode()
socket.send_fds(connection, [len(request).to_bytes({size}, "big")], [0, 1, 2])
connection.sendall(request)
sys.exit(int(connection.makefile().read()))
"""


@contextmanager
def running_server() -> Iterator[Path]:
    """A server on a socket, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pages-") as directory:  # the path of a socket must be short
        path = Path(directory) / "socket"
        server = subprocess.Popen([sys.executable, __file__, str(path)], stdout=subprocess.PIPE)
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n"
            yield path
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


def client_script(path: Path) -> str:
    """An executable that runs a command on the server at this socket."""
    return CLIENT.format(python=sys.executable, path=str(path), size=SIZE_BYTES)


def serve(path: str) -> None:
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")
    gc.freeze()  # a collection in a fork would copy the memory of all modules
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(connection)
            return
        connection.close()


def answer(connection: socket.socket) -> None:
    """Run the command in a further fork, and send its exit code when it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(connection, SIZE_BYTES, STREAMS)
    with connection.makefile("rb") as source:
        asked = json.loads(source.read(int.from_bytes(size, "big")))
    child = os.fork()
    if child == 0:
        connection.close()
        run(asked, streams)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    connection.close()


def run(asked: Any, streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    sys.argv = ["trimtab", *asked["arguments"]]
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)  # without taking all the modules apart


if __name__ == "__main__":
    serve(sys.argv[1])
