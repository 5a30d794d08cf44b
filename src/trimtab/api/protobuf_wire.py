"""The bytes of protobuf fields: variable-length integers, keys, and fields with a length."""

VARINT, FIXED64, DELIMITED = 0, 1, 2
"""Wire types."""


def encode_varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF  # negative numbers take ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_key(number: int, wire_type: int) -> bytes:
    return encode_varint(number << 3 | wire_type)


def encode_integer(number: int, value: int) -> bytes:
    """A field that holds an integer or a Boolean."""
    return encode_key(number, VARINT) + encode_varint(value)


def encode_delimited(number: int, body: bytes) -> bytes:
    """A field that holds a message, a text or bytes."""
    return encode_key(number, DELIMITED) + encode_varint(len(body)) + body
