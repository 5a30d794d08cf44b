"""What commands share that talk to an API server: the options that name it, and a client of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from trimtab.client.client import Client
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import InputFault

T = TypeVar("T")


def kubeconfig_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--context", default="", help="The context of the kubeconfig to use.")(command)
    return click.option("--kubeconfig", default="", help="The kubeconfig file; else $KUBECONFIG, else ~/.kube/config.")(
        command
    )


def with_client(kubeconfig: str, context: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of that API server, and close it afterwards."""

    async def main() -> T:
        client = KubeClient(load(kubeconfig or None, context))
        try:
            return await work(client)
        except (OSError, TimeoutError) as fault:
            raise InputFault(f"cannot reach the API server: {fault or type(fault).__name__}") from fault
        finally:
            await client.close()

    return asyncio.run(main())
