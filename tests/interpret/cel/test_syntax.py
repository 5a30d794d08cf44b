"""The parser of CEL that finds fields and costs: precedence, calls, and what it does not know."""

import pytest

from trimtab.interpret.cel.syntax import Call, Group, Index, Literal, Name, Node, Select, SyntaxFault, parse


def shape(node: Node | None) -> str:
    """The tree in a short form without positions."""
    match node:
        case Literal(type=kind):
            return kind
        case Name(name=name):
            return name
        case Select(operand=operand, field=field):
            return f"{shape(operand)}.{field}"
        case Index(operand=operand, key=key):
            return f"{shape(operand)}[{shape(key)}]"
        case Call(function=function, target=target, arguments=arguments):
            before = f"{shape(target)}." if target is not None else ""
            return f"{before}{function}({' '.join(map(shape, arguments))})"
        case Group():
            return "group"
    return "?"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("self.a + 1 * 2 == 3", "_==_(_+_(self.a _*_(int int)) int)"),
        ("a || b && c", "_||_(a _&&_(b c))"),
        ("self.items[0].name in names", "@in(self.items[int].name names)"),
        ("self.items.all(i, i.size() > 0)", "self.items.all(i _>_(i.size() int))"),
    ],
)
def test_operators_bind_as_in_cel(text: str, tree: str) -> None:
    assert shape(parse(text)) == tree


@pytest.mark.parametrize("text", ["", "a +", "a b", "(a", "a ? b", "#", "a" + ".b[" * 300])
def test_what_is_no_expression_is_a_fault(text: str) -> None:
    with pytest.raises(SyntaxFault):
        parse(text)
