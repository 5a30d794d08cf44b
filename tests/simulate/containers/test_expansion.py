"""Words of scripts: variables, quotes, and bounds of what they become."""

from simulate.containers.script_runs import Ran


def test_output_expands_variables_and_respects_quotes() -> None:
    ran = Ran("echo \"hello $NAME\" '$NAME' ${MISSING:-none}; printf '%s-%s\\n' a b", {"NAME": "web"})
    assert ran.output == "hello web $NAME none\na-b\n"
