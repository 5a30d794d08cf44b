"""Random UUIDs, generated in batches because every new object needs one."""

import os

_BATCH_SIZE = 256
"""One call of os.urandom per batch: it costs more than formatting a UUID."""
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The variant digit of RFC 4122 for each random digit."""
_generated: list[str] = []
os.register_at_fork(after_in_child=_generated.clear)


def random_uid() -> str:
    """A UUID of version 4 as text."""
    try:
        return _generated.pop()
    except IndexError:
        batch = _generate()
        uid = batch.pop()
        _generated.extend(batch)
        return uid


def _generate() -> list[str]:
    digits = os.urandom(16 * _BATCH_SIZE).hex()
    texts = [digits[at : at + 32] for at in range(0, len(digits), 32)]
    return [f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}" for text in texts]
