"""Options of the audit log belong together."""

from pathlib import Path

import click
import pytest

from trimtab.cli.support.options.audit import take_audit_settings

SIZES = {"audit_log_maxsize": 1, "audit_log_maxbackup": 2, "audit_log_maxage": 3}


def test_log_is_off_without_options_and_other_options_stay() -> None:
    options = {"audit_policy_file": None, "audit_log_path": None, **SIZES, "other": 1}
    assert take_audit_settings(options) is None
    assert options == {"other": 1}


def test_policy_without_a_log_is_refused() -> None:
    with pytest.raises(click.UsageError, match="belong together"):
        take_audit_settings({"audit_policy_file": Path("p"), "audit_log_path": None, **SIZES})


def test_options_become_settings() -> None:
    settings = take_audit_settings({"audit_policy_file": Path("p"), "audit_log_path": Path("l"), **SIZES})
    assert settings is not None
    assert (settings.policy, settings.log, tuple(settings.rotation)) == (Path("p"), Path("l"), (1, 2, 3))
