"""How texts count things."""


def plural(count: int, one: str, many: str = "") -> str:
    """`1 replica`, `2 replicas`; `many` where an s at the end is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb that follows a count: `is` or `are`."""
    return one if count == 1 else many
