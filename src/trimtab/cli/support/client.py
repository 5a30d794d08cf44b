"""The kubeconfig options of commands, and a client for the API server that they select."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import InputError

T = TypeVar("T")


def kubeconfig_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--context", default="", help="Context in the kubeconfig.")(command)
    return click.option("--kubeconfig", default="", help="Kubeconfig file; default: $KUBECONFIG, then ~/.kube/config.")(
        command
    )


def with_client(kubeconfig: str, context: str, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run `work` with a client of the API server, and close the client afterwards."""

    results: list[T] = []

    async def main() -> None:
        credentials = load(kubeconfig or None, context)
        client = KubeClient(credentials)
        try:
            results.append(await work(client))
        except (OSError, TimeoutError) as fault:
            why = str(fault) or type(fault).__name__
            raise InputError(
                f"cannot reach the API server {credentials.server}: {why}; is it running, and is this its kubeconfig?"
            ) from fault
        finally:
            await client.close()

    # not the result of the task: asyncio.run formats that in full when it restores the handler of SIGINT
    asyncio.run(main())
    return results[0]
