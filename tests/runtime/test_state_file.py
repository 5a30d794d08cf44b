"""The state file of a control plane: used once, by the same code and settings, in profiles that resume."""

from pathlib import Path

import pytest

from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.api.value import Key
from trimtab.runtime.saved_state import HOST
from trimtab.runtime.saved_tables import SavedQueue
from trimtab.runtime.state_file import StateFile

QUEUES = {"detect": SavedQueue([Key("deployments.apps", "default", "web")], [])}


def test_what_one_process_leaves_the_next_one_takes_once(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = StateFile(path, TRIMTAB, {}, ["detect"])
    assert (first.is_resumed, first.queues, first.tables_of_host()) == (False, None, None)
    first.write(QUEUES, {"m1": "here"}, [(HOST, ())])
    second = StateFile(path, TRIMTAB, {}, ["detect"])
    assert second.is_resumed
    assert second.queues == QUEUES
    assert second.tables_of_member("m1", "here") is not None
    assert second.tables_of_member("m1", "elsewhere") is None
    assert not StateFile(path, TRIMTAB, {}, ["detect"]).is_resumed


def test_other_settings_and_profiles_that_always_reconcile_do_not_resume(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for profile, settings in ((TRIMTAB, {"failover": False}), (UPSTREAM, {})):
        StateFile(path, TRIMTAB, {}, ["detect"]).write(QUEUES, {}, [])
        assert not StateFile(path, profile, settings, ["detect"]).is_resumed
    assert not StateFile(path, UPSTREAM, {}, ["detect"]).is_written
    assert not StateFile(None, TRIMTAB, {}, ["detect"]).is_written


def test_a_file_that_cannot_be_written_is_only_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    StateFile(tmp_path / "missing" / "state", TRIMTAB, {}, ["detect"]).write(QUEUES, {}, [])
    assert "the next start reads and reconciles everything" in caplog.text
