import pytest

from trimtab.registry import Registry


def test_entries_come_in_order_of_their_names_whenever_they_were_added() -> None:
    plugins: Registry[int] = Registry("plugin")
    plugins.add("second", 2)
    plugins.add("first", 1)
    assert plugins.names() == ["first", "second"]
    assert list(plugins.values()) == [1, 2]
    assert plugins["first"] == 1
    assert "third" not in plugins
    assert plugins.get("third") is None


def test_a_second_entry_of_a_name_is_a_mistake_and_never_an_override() -> None:
    plugins: Registry[int] = Registry("plugin")
    plugins.add("only", 1)
    with pytest.raises(ValueError, match="two plugins are called 'only'"):
        plugins.add("only", 2)
    assert plugins["only"] == 1
