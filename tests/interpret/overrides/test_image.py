import pytest

from trimtab.interpret.overrides.image import InvalidImage, override_image, parse_image

DIGEST = "sha256:" + "a" * 64


def test_port_is_not_a_tag() -> None:
    assert parse_image("localhost:5000/a") == ("localhost:5000", "a", "", "")


def test_tag_takes_precedence_over_a_digest() -> None:
    assert str(parse_image(f"nginx:1@{DIGEST}")) == "nginx:1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "nginx:",
        "nginx@sha256:abc",
        f"nginx@md5:{'a' * 32}",
        f"nginx@sha256:{'A' * 64}",
        "x" * 256,
        "/a",
        "a//b",
        "-a",
    ],
)
def test_invalid_image_reference_is_rejected(text: str) -> None:
    with pytest.raises(InvalidImage):
        parse_image(text)


def test_unknown_component_is_rejected() -> None:
    with pytest.raises(InvalidImage, match="no component 'Host'"):
        override_image("nginx", "Host", "add", "x")


def test_tag_replaces_a_digest() -> None:
    assert override_image(f"nginx@{DIGEST}", "Tag", "replace", "2") == "nginx:2"
