"""Which representation a client gets."""

import pytest

from trimtab.errors import NotAcceptable
from trimtab.server.http.negotiation import JSON, PROTOBUF, YAML, Form, form_of, prefers_protobuf, wants_pretty

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/yaml", Form(YAML)),
        (f"{PROTOBUF},{JSON}", Form(PROTOBUF)),
        ("text/html;q=0.9, application/json;q=0.5", Form()),
        (f"{TABLE},{JSON}", Form(JSON, "Table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form(JSON, "Table", "v1beta1")),
        (f"application/json;as=Frob;v=v1;g=meta.k8s.io,{JSON}", Form()),
    ],
)
def test_the_first_that_can_be_served_wins(accept: str, form: Form) -> None:
    assert form_of(accept, single=True) == form


def test_custom_resources_have_no_protobuf_form() -> None:
    assert form_of(f"{PROTOBUF},{JSON}", single=True, custom=True) == Form()
    with pytest.raises(NotAcceptable):
        form_of(PROTOBUF, single=True, custom=True)


@pytest.mark.parametrize("accept", ["text/html", "application/cbor", "application/json;as=Frob;v=v1;g=meta.k8s.io"])
def test_what_nobody_can_serve_is_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        form_of(accept, single=True)


def test_a_list_form_does_not_fit_a_single_object() -> None:
    wanted = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    with pytest.raises(NotAcceptable):
        form_of(wanted, single=True)
    assert form_of(wanted, single=False).transform == "PartialObjectMetadataList"


def test_people_get_indented_json_unless_they_say_otherwise() -> None:
    assert wants_pretty(None, "curl/8.0")
    assert not wants_pretty("false", "curl/8.0")
    assert wants_pretty("1", "kubectl/1.32")
    assert not wants_pretty(None, "kubectl/1.32")


def test_refusals_follow_the_preference_for_protobuf() -> None:
    assert prefers_protobuf(f"{PROTOBUF},{JSON}")
    assert not prefers_protobuf(f"{JSON},{PROTOBUF}")
