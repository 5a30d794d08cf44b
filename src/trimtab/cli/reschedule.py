"""`trimtab reschedule`: what one round of the rescheduler would move and why, what it would not, or the round itself."""

from pathlib import Path

import click
import yaml

from trimtab.api.profile import PROFILES
from trimtab.api.value import Raw
from trimtab.cli.shared import kubeconfig_options, table, with_client
from trimtab.client.client import Client
from trimtab.clock import WallClock
from trimtab.decide.reschedule.plan import Plan
from trimtab.errors import InputFault
from trimtab.runtime.rescheduler import Config, Rescheduler, read_config


def config_from(file: str) -> Config | None:
    """The settings of a file: of ours, or a DeschedulerPolicy; None when no file is named."""
    if not file:
        return None
    try:
        text = Path(file).read_text()
        decoded = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        raise InputFault(f"{file}: cannot be read: {fault}") from fault
    is_policy = isinstance(decoded, dict) and decoded.get("kind") == "DeschedulerPolicy"
    return read_config({"policy.yaml" if is_policy else "rescheduler.yaml": text})


@click.command()
@click.option("--plan", "only_plan", is_flag=True, help="Only say what would be done.")
@click.option("--config", default="", help="Settings or a DeschedulerPolicy; else the ConfigMap in the cluster.")
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@click.option("--output", "-o", type=click.Choice(["table", "yaml"]), default="table", show_default=True)
@kubeconfig_options
def command(only_plan: bool, config: str, profile: str, output: str, kubeconfig: str, context: str) -> None:
    """Move pods that would be better off elsewhere, once; with --plan, say which and why, and which not and why."""

    async def work(client: Client) -> Plan:
        rescheduler = Rescheduler(client, clock=WallClock(), profile=PROFILES[profile], fixed=config_from(config))
        await rescheduler.configure()
        if not rescheduler.configured:
            rescheduler = Rescheduler(client, clock=WallClock(), profile=PROFILES[profile], fixed=read_config({}))
        if only_plan:
            return (await rescheduler.think(confirmations=1))[1]
        done = await rescheduler.round()
        if done is None:
            raise InputFault("the rescheduler is not configured")
        return done

    found = with_client(kubeconfig, context, work)
    click.echo(yaml.safe_dump(shown(found), sort_keys=False).rstrip() if output == "yaml" else told(found))


def told(found: Plan) -> str:
    moves = [
        ("/".join(one.pod.key), one.source, one.expected or "?", f"{one.gain:.0f} %", one.objective, one.reason)
        for one in found.moves
    ]
    stay = [
        ("/".join(one.pod.key), one.pod.pod.spec.node_name, f"{one.gain:.0f} %", one.objective, one.reason)
        for one in found.refused
    ]
    parts = [f"{len(moves)} pods move"]
    if moves:
        parts.append(table(("POD", "FROM", "TO", "GAIN", "OBJECTIVE", "WHY"), moves))
    if stay:
        parts += [
            "",
            f"{len(stay)} pods stay, although they would gain",
            table(("POD", "NODE", "GAIN", "OBJECTIVE", "WHY NOT"), stay),
        ]
    return "\n".join(parts)


def shown(found: Plan) -> Raw:
    return {
        "moves": [
            {
                "pod": "/".join(one.pod.key),
                "from": one.source,
                "to": one.expected,
                "gain": round(one.gain, 1),
                "objective": one.objective,
                "reason": one.reason,
            }
            for one in found.moves
        ],
        "refused": [
            {
                "pod": "/".join(one.pod.key),
                "node": one.pod.pod.spec.node_name,
                "gain": round(one.gain, 1),
                "objective": one.objective,
                "reason": one.reason,
            }
            for one in found.refused
        ],
    }
