"""Values of a JSON text are counted without building them; deep and long paths are refused without recursion."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.json_bounds import check_depth, count_keys, has_more_values, without_escapes
from trimtab.api.limits import MAX_DEPTH, MAX_PATH_LENGTH


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        (b"[1,2,3]", 4, False),
        (b"[1,2,3]", 3, True),
        (b'["a,b,c,d"]', 2, False),
        (b'["a,\\",b,c,d"]', 2, False),
        (b'["a,\\\\",1,2]', 3, True),
        (b'{"a,b,c":{"d,e":[]}}', 4, False),
        (b'["a,b,c,d,,,,,', 2, False),
        (b'["\\', 2, False),
        (b'["' + b'\\"' * 100_000, 10, False),
        (b'"",' * 100_000, 10, True),
    ],
)
def test_commas_and_brackets_in_strings_do_not_count(text: bytes, limit: int, expected: bool) -> None:
    assert has_more_values(text, limit) is expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(alphabet=',:{}[]"\\ab'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet=',:{}[]"\\ab'), inner),
)


def _count(value) -> int:
    if isinstance(value, dict | list):
        return 1 + sum(map(_count, value.values() if isinstance(value, dict) else value))
    return 1


@given(json_values)
def test_text_with_half_as_many_values_as_allowed_is_never_refused(value) -> None:
    assert not has_more_values(orjson.dumps(value), 2 * _count(value))


def _count_keys(value) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (len(value) if isinstance(value, dict) else 0) + sum(map(_count_keys, children))


@given(json_values)
def test_keys_are_counted_without_the_strings_and_their_escapes(value) -> None:
    assert count_keys(orjson.dumps(value)) == _count_keys(value)
    assert without_escapes(orjson.dumps(value)).count(b'"') % 2 == 0


@given(json_values, st.integers(0, 5))
def test_text_with_many_more_values_is_always_refused(value, limit: int) -> None:
    if _count(value) > 3 * limit + 10:
        assert has_more_values(orjson.dumps(value), limit)


def test_too_deep_value_is_refused() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="exceeded max depth"):
        check_depth(value)
    shallow: object = 1
    for _ in range(MAX_DEPTH):
        shallow = {"a": shallow}
    check_depth(shallow)


def test_keys_of_one_path_are_bounded_together() -> None:
    half = "k" * (MAX_PATH_LENGTH // 2)
    check_depth({half: {half: 1}, half + "2": [{half[1:]: 1}]})
    for long in ({half: {half: {"x": 1}}}, {half: [{half + "x": 1}]}, {"k" * (MAX_PATH_LENGTH + 1): 1}):
        with pytest.raises(ValueError, match="keys of a path"):
            check_depth(long)
