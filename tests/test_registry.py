import pytest

from trimtab.registry import Registry


def test_entries_are_ordered_by_name() -> None:
    plugins: Registry[int] = Registry("plugin")
    plugins.add("second", 2)
    plugins.add("first", 1)
    assert plugins.names() == ["first", "second"]
    assert list(plugins.values()) == [1, 2]
    assert plugins["first"] == 1
    assert "third" not in plugins
    assert plugins.get("third") is None


def test_second_entry_of_a_name_is_an_error() -> None:
    plugins: Registry[int] = Registry("plugin")
    plugins.add("only", 1)
    with pytest.raises(ValueError, match="there are two plugins with the name 'only'"):
        plugins.add("only", 2)
    assert plugins["only"] == 1
