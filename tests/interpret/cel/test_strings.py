import json

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from interpret.cel.cel_helpers import CLUSTER, program, scores

REFERENCE = cel.NewEnv(extensions=[ext_strings.ExtStrings()])
STRING_EXPRESSIONS = [
    '"hello".charAt(1)', '"hello".charAt(5)', '"hello".charAt(6)', '"hello".indexOf("l")', '"hello".indexOf("l", 3)',
    '"hello".indexOf("", 2)', '"hello".indexOf("z")', '"hello".indexOf("l", 9)', '"hello".lastIndexOf("l")',
    '"hello".lastIndexOf("l", 2)', '"hello".lastIndexOf("", 3)', '"hello".lastIndexOf("h", -1)', '"a".join()', '["a", "b"].join()',
    '["a", "b"].join("-")', '[].join("-")', '"HéLLO".lowerAscii()', '"héllo".upperAscii()', '"hello".replace("l", "L")',
    '"hello".replace("l", "L", 1)', '"hello".replace("l", "L", 0)', '"hello".replace("", "_")', '"hello".replace("", "_", 2)',
    '"a,b,c".split(",")', '"a,b,c".split(",", 2)', '"a,b,c".split(",", 0)', '"a,b,c".split(",", 1)', '"abc".split("")',
    '"abc".split("", 2)', '"".split(",")', '"tacocat".substring(4)', '"tacocat".substring(0, 4)', '"tacocat".substring(8)',
    '"tacocat".substring(3, 2)', '"  a\\tb \\n".trim()', '"gums".reverse()', 'strings.quote("a\\"b\\\\c\\n")',
    '"%s, %d%%".format(["x", 3])', '"%.2f".format([1.2345])', '"%f".format([2])', '"%e".format([1234.5])', '"%x".format([255])',
    '"%X".format(["hi"])', '"%x".format([b"hi"])', '"%o".format([8])', '"%b".format([5])', '"%b".format([true])', '"%s".format([1.5])',
    '"%s".format([[1, "a", null]])', '"%s".format([{"b": 1, "a": true}])', '"%s".format([duration("90s")])', '"%s".format([])',
    '"%s".format([timestamp("2026-01-02T03:04:05Z")])', '"%d".format([-7])', '"%q".format([1])', '"%".format([1])', '"%s".format([b"x"])',
]  # fmt: skip


@pytest.mark.parametrize("expression", STRING_EXPRESSIONS)
def test_string_functions_agree_with_the_evaluators_own_extension(expression: str) -> None:
    try:
        value = REFERENCE.compile(expression).eval(data={})
        expected = None if value.type() == cel.Type.ERROR else value.plain_value()
    except RuntimeError:
        expected = None
    compiled = program(f"{expression} == {json.dumps(expected)}")
    if expected is None:
        assert isinstance(compiled, str) or not compiled(CLUSTER, scores)
    else:
        assert not isinstance(compiled, str), compiled
        assert compiled(CLUSTER, scores), expected
