"""Where a cluster is, as users state it when they join it."""

import click
import pytest
from click.testing import CliRunner

from trimtab.cli.support.options.cluster_facts import cluster_facts_options, parse_label
from trimtab.errors import InputError
from trimtab.members.join import ClusterFacts


@click.command()
@cluster_facts_options
@click.argument("name")
def command(name: str, facts: ClusterFacts) -> None:
    click.echo(f"{name} {facts.provider} {facts.region} {facts.zones} {facts.labels}")


def test_options_arrive_together_beside_the_other_parameters() -> None:
    options = "m1 --provider p --region r --zone a --zone b --label tier=gold --label empty="
    assert CliRunner().invoke(command, options.split()).output == ("m1 p r ('a', 'b') {'tier': 'gold', 'empty': ''}\n")


@pytest.mark.parametrize("label", ["tier", "=gold", ""])
def test_a_label_needs_a_key_and_an_equals_sign(label: str) -> None:
    with pytest.raises(InputError, match="expected KEY=VALUE"):
        parse_label(label)
