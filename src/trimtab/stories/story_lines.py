"""Finds the line of a field in a story file, so that an error can say where it is."""

import re

import yaml

_PART = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def line_of(text: str, path: str) -> int | None:
    """The line of the field at a path such as `timeline[2].fail.cluster`; of its last existing parent otherwise.

    The text was parsed before within limits, so composing it once more is bounded.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    if node is None:
        return None
    line = node.start_mark.line
    for name, index in _PART.findall(path):
        found = _child(node, name, index)
        if found is None:
            break
        node, line = found
    return int(line) + 1


def _child(node: yaml.Node, name: str, index: str) -> tuple[yaml.Node, int] | None:
    """The part of a node, and the line at which it begins: of a field, that of its name."""
    if name and isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value, key.start_mark.line
    elif index.isdigit() and isinstance(node, yaml.SequenceNode) and int(index) < len(node.value):
        found = node.value[int(index)]
        return found, found.start_mark.line
    return None
