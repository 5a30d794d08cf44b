"""Parsing and validation of query parameters."""

import base64

import pytest

from trimtab.api.limits import MAX_SELECTOR_LENGTH, MAX_SELECTOR_TERMS
from trimtab.errors import BadRequest, Invalid
from trimtab.server.request.options import (
    check_timeout,
    encode_continue_token,
    parse_delete_options,
    parse_list_options,
    parse_write_options,
    validate_list_options,
    validate_watch_options,
)


def test_continue_token_resumes_after_its_key_at_its_revision() -> None:
    options = validate_list_options(
        parse_list_options({"continue": encode_continue_token(7, "/registry/core/pods/default/a")})
    )
    assert (options.snapshot, options.after) == (7, "registry/core/pods/default/a")


def test_malformed_continue_token_is_rejected() -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        validate_list_options(parse_list_options({"continue": "nonsense"}))


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
        validate_list_options(parse_list_options(query))


def test_watch_with_initial_events_requires_version_match() -> None:
    with pytest.raises(Invalid, match="requires setting resourceVersionMatch to NotOlderThan"):
        validate_watch_options(parse_list_options({"sendInitialEvents": "true"}))
    assert validate_watch_options(
        parse_list_options({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
    )


def test_apply_requires_a_field_manager() -> None:
    with pytest.raises(Invalid, match="is required for apply patch"):
        parse_write_options("PatchOptions", {}, apply=True)
    assert parse_write_options("PatchOptions", {"fieldManager": "me", "force": "true"}, apply=True).force


def test_dry_run_accepts_only_all() -> None:
    assert parse_write_options("CreateOptions", {"dryRun": "All"}).dry_run
    with pytest.raises(Invalid, match="Unsupported value"):
        parse_write_options("CreateOptions", {"dryRun": "Some"})


def test_delete_options_come_from_the_body_before_the_query() -> None:
    body = {"propagationPolicy": "Orphan", "preconditions": {"uid": "u"}}
    options = parse_delete_options(body, {"propagationPolicy": "Foreground"})
    assert (options.propagation_policy, options.uid) == ("Orphan", "u")
    assert (
        parse_delete_options(None, {"propagationPolicy": "Foreground", "gracePeriodSeconds": "5"}).grace_period_seconds
        == 5
    )


def test_orphan_dependents_excludes_propagation_policy() -> None:
    with pytest.raises(Invalid, match="cannot be both set"):
        parse_delete_options({"orphanDependents": True, "propagationPolicy": "Orphan"}, {})


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "1" * 10_000},
        {"limit": str(1 << 63)},
        {"timeoutSeconds": "9" * 400},
        {"timeoutSeconds": "9" * 30},
        {"labelSelector": "a" * (MAX_SELECTOR_LENGTH + 1)},
        {"labelSelector": "a," * MAX_SELECTOR_TERMS},
        {"fieldSelector": "metadata.name=a," * MAX_SELECTOR_TERMS},
    ],
)
def test_parameter_beyond_its_limit_is_a_bad_request(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest, match=r"out of range|too long"):
        parse_list_options(query)


def test_long_continue_token_is_invalid() -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        validate_list_options(parse_list_options({"continue": "e" * 1_000_000}))


@pytest.mark.parametrize("text", ["9" * 20, "9" * 5000, "-9223372036854775809", "1_0", "\u0663", " 1", "0x1", "1.5"])
def test_numbers_are_decimal_and_have_64_bits(text: str) -> None:
    for name in ("limit", "timeoutSeconds"):
        with pytest.raises(BadRequest, match=r"strconv\.ParseInt: parsing"):
            parse_list_options({name: text})
    with pytest.raises(BadRequest, match=r"strconv\.ParseInt: parsing"):
        parse_delete_options(None, {"gracePeriodSeconds": text})


def test_continue_token_with_an_impossible_revision_is_rejected() -> None:
    body = b'{"v":"meta.k8s.io/v1","rv":18446744073709551615,"start":"a"}'
    with pytest.raises(BadRequest, match="continue key is not valid"):
        validate_list_options(parse_list_options({"continue": base64.urlsafe_b64encode(body).decode()}))


def test_timeout_must_be_a_duration_of_go() -> None:
    for text in ("", "0", "0s", "3m", "1h30m", "1.5s", "250ms"):
        check_timeout(text)
    for text in ("invalid", "3", "m", "1h30"):
        with pytest.raises(BadRequest, match="invalid timeout specified in the request URL"):
            check_timeout(text)
