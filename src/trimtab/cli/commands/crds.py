"""`trimtab crds`: the CustomResourceDefinitions to install on a Kubernetes API server."""

from typing import Any

import click
import yaml

from trimtab.api import kinds as declarations
from trimtab.api.kind import Kind, kinds
from trimtab.api.schema.from_types import crd
from trimtab.errors import InputFault
from trimtab.registry import discover


def _ours() -> list[Kind]:
    """Every kind that a Kubernetes API server does not know by itself."""
    discover(declarations)
    return [kind for kind in kinds.values() if kind.custom or kind.id == "clusters.cluster.karmada.io"]


class _Plain(yaml.SafeDumper):
    """YAML without anchors: schemas share parts in memory, and readers should not have to follow them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@click.command()
@click.option("--group", "groups", multiple=True, help="Only kinds of this API group; may be given several times.")
@click.option(
    "--conversion-url",
    default="",
    help="Where a webhook converts older versions; without it only the stored version of each kind is served.",
)
def command(groups: tuple[str, ...], conversion_url: str) -> None:
    """Print the CustomResourceDefinitions of Trimtab, ready for `kubectl apply --server-side -f -`."""
    webhook = {"url": conversion_url} if conversion_url else None
    ours = _ours()
    known = {kind.group for kind in ours}
    if unknown := sorted(set(groups) - known):
        raise InputFault(f"no kinds of the group {unknown[0]}; there are: {', '.join(sorted(known))}")
    for kind in ours:
        if groups and kind.group not in groups:
            continue
        click.echo("---")
        click.echo(yaml.dump(crd(kind, webhook), Dumper=_Plain, sort_keys=False, width=120), nl=False)
