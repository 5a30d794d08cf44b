"""The names of bindings and Works, exactly as in Karmada, because users' tools look them up."""

_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_SAFE_DIGITS = {ord(digit): _SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in "0123456789"}


def fnv1a(data: str) -> int:
    """The 32-bit FNV-1a hash of the text's UTF-8 bytes."""
    found = 0x811C9DC5
    for byte in data.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def _safe_encode(number: int) -> str:
    """Decimal digits encoded in characters that form no words, as `rand.SafeEncodeString` does."""
    return str(number).translate(_SAFE_DIGITS)


def binding_name(kind: str, name: str) -> str:
    return f"{name.replace(':', '.')}-{kind}".lower()


def work_name(kind: str, name: str, namespace: str = "") -> str:
    plain = name.replace(":", ".").lower()
    subject = "-".join(part for part in (namespace, plain, kind) if part).lower()
    return f"{plain}-{_safe_encode(fnv1a(subject))}"


def binding_reference_key(namespace: str, name: str) -> str:
    """The suffix of the label `resourcebinding.karmada.io/depended-by-…`."""
    return _safe_encode(fnv1a(f"{namespace}/{name}" if namespace else name))
