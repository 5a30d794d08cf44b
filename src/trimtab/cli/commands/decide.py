"""`trimtab decide`: decide the placement of workloads, Placements or pods from files, without a server."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click

from trimtab.api.profile import PROFILES
from trimtab.cli.support.output import format_structured, output_option
from trimtab.clock import WallClock
from trimtab.dryrun.decisions import DryRunDecision, TargetOutcome, decide_manifests
from trimtab.dryrun.manifests import read_manifests
from trimtab.errors import InputError
from trimtab.tables import format_table

NOT_PLACED = 3
"""The exit code when something cannot be placed; 1 means wrong input, 2 a wrong command line."""


@click.command()
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="YAML or JSON file; `-` is standard input."
)
@output_option
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="trimtab", show_default=True)
@click.option("--at", "moment", default="", help="Time of the decision (RFC 3339). Default: now.")
def command(files: Sequence[str], output: str, profile: str, moment: str) -> int:
    """Decide where the workloads in these files are placed, and why, without a server.

    The files contain Clusters, workloads and propagation policies (optionally bindings, scores and interpreter
    customizations); or ManagedClusters, cluster sets, bindings, scores and Placements; or Nodes and Pods. Pods
    without a node are placed.

    Exit codes: 0 when everything is placed, 3 when something is not, 1 when the input is wrong.
    """
    manifests = read_manifests(files)
    for warning in manifests.warnings:
        click.echo(f"warning: {warning}", err=True)
    decisions = decide_manifests(manifests, now=_parse_time(moment), profile=PROFILES[profile])
    click.echo(_format_decisions(decisions, output))
    return 0 if all(verdict.placed for verdict in decisions) else NOT_PLACED


def _parse_time(text: str) -> datetime:
    if not text:
        return WallClock().now()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as fault:
        raise InputError(f"--at: expected a time such as 2026-03-01T12:00:00Z, got {text!r}") from fault
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _format_decisions(decisions: Sequence[DryRunDecision], output: str) -> str:
    if output in ("json", "yaml"):
        return format_structured({"decisions": decisions}, output)
    if output == "name":
        return "\n".join(decision.subject.replace(" ", "/", 1) for decision in decisions)
    return "\n\n".join("\n".join(_decision_lines(verdict, wide=output == "wide")) for verdict in decisions)


def _decision_lines(decision: DryRunDecision, *, wide: bool) -> Iterator[str]:
    by = f" ({decision.by})" if decision.by else ""
    yield f"{decision.subject}{by}: {'placed' if decision.placed else 'NOT PLACED'}. {decision.message}"
    if decision.targets:
        yield from _target_table(decision, wide=wide).splitlines()
    for group in decision.groups:
        noun = "Affinity group" if decision.api == "karmada" else "Decision group"
        yield f"{noun} {group.name}: {group.message or 'selected'}."
    if wide:
        yield from _footer_lines(decision)


def _target_table(decision: DryRunDecision, *, wide: bool) -> str:
    noun = "NODE" if decision.api == "pods" else "CLUSTER"
    counted = any(target.replicas is not None for target in decision.targets)
    headings = [noun, "REPLICAS" if counted else "SELECTED", *(_WIDE_HEADINGS if wide else ()), "REASON"]
    rows = [
        [target.name, _share_text(target, counted), *(_wide_cells(target) if wide else ()), _reason_text(target)]
        for target in decision.targets
    ]
    return format_table(headings, rows)


_WIDE_HEADINGS = ("BEFORE", "FITS", "TOTAL", "SCORES")


def _share_text(target: TargetOutcome, counted: bool) -> str:
    if counted:
        return str(target.replicas or 0)
    return "yes" if target.outcome == "Selected" else "no"


def _wide_cells(target: TargetOutcome) -> list[str]:
    scores = ",".join(f"{name}={score}" for name, score in sorted(target.scores.items()))
    fits, total = ("" if number is None else str(number) for number in (target.fits, target.total))
    return [str(target.before), fits or "-", total or "-", scores or "-"]


def _reason_text(target: TargetOutcome) -> str:
    if target.outcome == "Rejected":
        return f"{target.plugin}: {target.reason}" if target.plugin else target.reason
    if target.outcome == "NotNeeded":
        return target.reason or "feasible, but not needed"
    return target.reason or "selected"


def _footer_lines(decision: DryRunDecision) -> Iterator[str]:
    if decision.strategy:
        yield f"Strategy: {decision.strategy}, {decision.mode}; {decision.rule}"
    if decision.tie_break:
        yield f"Ties: {decision.tie_break}"
    until = decision.valid_until
    yield f"Valid until: {'the input changes' if until is None else f'{until:%Y-%m-%dT%H:%M:%SZ}'}"
