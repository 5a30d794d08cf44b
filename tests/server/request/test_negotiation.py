"""Content negotiation of responses."""

import pytest

from trimtab.api.limits import MAX_ACCEPT_ENTRIES
from trimtab.errors import NotAcceptable
from trimtab.server.request.negotiation import (
    JSON,
    PROTOBUF,
    YAML,
    AcceptEntry,
    ResponseFormat,
    accept_error,
    negotiate_format,
    parse_accept,
    prefers_protobuf,
    wants_pretty,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", ResponseFormat()),
        ("*/*", ResponseFormat()),
        ("application/yaml", ResponseFormat(YAML)),
        (f"{PROTOBUF},{JSON}", ResponseFormat(PROTOBUF)),
        ("text/html;q=0.9, application/json;q=0.5", ResponseFormat()),
        (f"{TABLE},{JSON}", ResponseFormat(JSON, "Table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", ResponseFormat(JSON, "Table", "v1beta1")),
        (f"application/json;as=Frob;v=v1;g=meta.k8s.io,{JSON}", ResponseFormat()),
    ],
)
def test_first_supported_alternative_is_chosen(accept: str, form: ResponseFormat) -> None:
    assert negotiate_format(accept, single=True) == form


def test_custom_resources_are_not_served_as_protobuf() -> None:
    assert negotiate_format(f"{PROTOBUF},{JSON}", single=True, custom=True) == ResponseFormat()
    with pytest.raises(NotAcceptable):
        negotiate_format(PROTOBUF, single=True, custom=True)


@pytest.mark.parametrize("accept", ["text/html", "application/cbor", "application/json;as=Frob;v=v1;g=meta.k8s.io"])
def test_unsupported_media_type_is_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiate_format(accept, single=True)


def test_list_transform_is_not_acceptable_for_a_single_object() -> None:
    wanted = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    with pytest.raises(NotAcceptable):
        negotiate_format(wanted, single=True)
    assert negotiate_format(wanted, single=False).transform == "PartialObjectMetadataList"


def test_curl_gets_indented_json_unless_pretty_is_false() -> None:
    assert wants_pretty(None, "curl/8.0")
    assert not wants_pretty("false", "curl/8.0")
    assert wants_pretty("1", "kubectl/1.32")
    assert not wants_pretty(None, "kubectl/1.32")


def test_protobuf_is_preferred_only_when_listed_first() -> None:
    assert prefers_protobuf(f"{PROTOBUF},{JSON}")
    assert not prefers_protobuf(f"{JSON},{PROTOBUF}")


def test_accept_header_is_read_up_to_a_limit() -> None:
    assert parse_accept("," * 1_000_000) == parse_accept("") == (AcceptEntry("", {}),)
    assert len(parse_accept("text/html," * 10_000)) == MAX_ACCEPT_ENTRIES
    assert "longer than" in accept_error("," * 10_000)
    assert "alternatives" in accept_error("a/b," * (MAX_ACCEPT_ENTRIES + 1))
    assert accept_error("application/json,*/*;q=0.1") == ""


def test_tables_can_be_refused() -> None:
    wanted = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert negotiate_format(wanted, single=False, watch=True).transform == "Table"
    assert negotiate_format(f"{wanted},{JSON}", single=False, watch=True, tables=False) == ResponseFormat()
    with pytest.raises(NotAcceptable):
        negotiate_format(wanted, single=False, watch=True, tables=False)
