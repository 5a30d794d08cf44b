"""Parsing and validation of query parameters."""

import pytest

from trimtab.errors import BadRequest, Invalid
from trimtab.server.request.options import (
    check_list,
    check_watch,
    delete_options,
    list_options,
    make_token,
    write_options,
)


def test_continue_token_resumes_after_its_key_at_its_revision() -> None:
    options = check_list(list_options({"continue": make_token(7, "/registry/core/pods/default/a")}))
    assert (options.snapshot, options.after) == (7, "registry/core/pods/default/a")


def test_malformed_continue_token_is_rejected() -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        check_list(list_options({"continue": "nonsense"}))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"resourceVersionMatch": "Exact"}, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 'is forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Newest", "resourceVersion": "1"}, 'Unsupported value: "Newest"'),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
    ],
)
def test_invalid_list_options_are_rejected(query: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check_list(list_options(query))


def test_watch_with_initial_events_requires_version_match() -> None:
    with pytest.raises(Invalid, match="requires setting resourceVersionMatch to NotOlderThan"):
        check_watch(list_options({"sendInitialEvents": "true"}))
    assert check_watch(list_options({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}))


def test_apply_requires_a_field_manager() -> None:
    with pytest.raises(Invalid, match="is required for apply patch"):
        write_options("PatchOptions", {}, apply=True)
    assert write_options("PatchOptions", {"fieldManager": "me", "force": "true"}, apply=True).force


def test_dry_run_accepts_only_all() -> None:
    assert write_options("CreateOptions", {"dryRun": "All"}).dry_run
    with pytest.raises(Invalid, match="Unsupported value"):
        write_options("CreateOptions", {"dryRun": "Some"})


def test_delete_options_come_from_the_body_before_the_query() -> None:
    body = {"propagationPolicy": "Orphan", "preconditions": {"uid": "u"}}
    options = delete_options(body, {"propagationPolicy": "Foreground"})
    assert (options.policy, options.uid) == ("Orphan", "u")
    assert delete_options(None, {"propagationPolicy": "Foreground", "gracePeriodSeconds": "5"}).grace == 5


def test_orphan_dependents_excludes_propagation_policy() -> None:
    with pytest.raises(Invalid, match="cannot be both set"):
        delete_options({"orphanDependents": True, "propagationPolicy": "Orphan"}, {})
