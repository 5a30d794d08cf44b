"""The bytes of protobuf fields, as the protobuf documentation gives them."""

import pytest

from trimtab.api.protobuf_wire import encode_delimited, encode_integer, encode_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (150, "9601"), (300, "ac02"), (-2, "feffffffffffffffff01")],
)
def test_integers_take_seven_bits_a_byte_the_lowest_first(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


def test_a_key_names_the_field_and_its_wire_type() -> None:
    assert encode_integer(1, 150).hex() == "089601"
    assert encode_integer(16, 1).hex() == "800101"


def test_texts_and_messages_begin_with_their_length() -> None:
    assert encode_delimited(2, b"testing").hex() == "120774657374696e67"
    assert encode_delimited(3, b"").hex() == "1a00"
