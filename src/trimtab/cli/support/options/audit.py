"""The options of the audit log of an API server; their names are those of kube-apiserver."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trimtab.server.http.audit import AuditSettings

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)
_COUNT = click.IntRange(0, 1_000_000)


def audit_options(command: F) -> F:
    """Add the options of the audit log to a command; they arrive as one value, `audit`."""
    options = (
        click.option("--audit-policy-file", type=_FILE, help="Which requests are recorded (audit.k8s.io/v1 Policy)."),
        click.option("--audit-log-path", type=_FILE, help="File for audit events, one JSON object per line."),
        click.option("--audit-log-maxsize", type=_COUNT, default=100, show_default=True, help="Megabytes of one file."),
        click.option("--audit-log-maxbackup", type=_COUNT, default=10, show_default=True, help="Files that are kept."),
        click.option(
            "--audit-log-maxage", type=_COUNT, default=0, help="Days for which files are kept; 0 means no limit."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def take_audit_settings(options: dict[str, Any]) -> "AuditSettings | None":
    """Remove the options of the audit log from those of a command; None when it is off."""
    policy, path = options.pop("audit_policy_file"), options.pop("audit_log_path")
    sizes = [options.pop(f"audit_log_{name}") for name in ("maxsize", "maxbackup", "maxage")]
    if policy is None and path is None:
        return None
    if policy is None or path is None:
        raise click.UsageError("--audit-policy-file and --audit-log-path belong together")
    from trimtab.server.http.audit import AuditSettings  # noqa: PLC0415
    from trimtab.server.http.audit_log import AuditRotation  # noqa: PLC0415

    return AuditSettings(policy, path, AuditRotation(*sizes))
