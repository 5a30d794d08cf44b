"""The options by which users state where a cluster is when they join it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from trimtab.errors import InputError
from trimtab.members.join import ClusterFacts


def cluster_facts_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, which arrive together as `facts`."""

    @wraps(command)
    def with_facts(
        *, provider: str, region: str, zones: tuple[str, ...], labels: tuple[str, ...], **others: Any
    ) -> Any:
        facts = ClusterFacts(provider=provider, region=region, zones=zones, labels=dict(map(parse_label, labels)))
        return command(facts=facts, **others)

    options = (
        click.option("--provider", default=""),
        click.option("--region", default=""),
        click.option("--zone", "zones", multiple=True, help="Zone of the cluster; can be repeated."),
        click.option(
            "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the cluster; can be repeated."
        ),
    )
    decorated: Callable[..., Any] = with_facts
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def parse_label(label: str) -> tuple[str, str]:
    key, equals, value = label.partition("=")
    if not equals or not key:
        raise InputError(f"--label: expected KEY=VALUE, got {label!r}")
    return key, value
