"""What arrives for a simulated process."""

from trimtab.simulate.containers.input_buffer import MAX_BUFFERED_BYTES, InputBuffer


def test_lines_are_taken_when_they_are_complete_or_the_input_has_ended() -> None:
    given = InputBuffer(b"one\ntw")
    assert (given.take_line(), given.take_line()) == (b"one", None)
    given.feed(b"o\nrest")
    assert (given.take_line(), given.take_line()) == (b"two", None)
    given.close()
    assert (given.take_line(), given.take_line()) == (b"rest", None)


def test_input_beyond_the_limit_and_after_the_end_is_dropped() -> None:
    given = InputBuffer(b"x" * MAX_BUFFERED_BYTES)
    given.feed(b"y")
    assert given.size == MAX_BUFFERED_BYTES
    closed = InputBuffer(is_closed=True)
    closed.feed(b"late")
    assert closed.take() == b""
