"""Evaluates expressions about one cluster, for tests."""

from trimtab.interpret.cel.expressions import SelectorProgram, compiler

CLUSTER = {
    "metadata": {"name": "c1", "labels": {"env": "prod"}},
    "spec": {"hubAcceptsClient": True},
    "status": {"conditions": None, "version": {"kubernetes": "v1.30.2"}, "allocatable": {"cpu": "3500m"}},
}


def scores(resource: str) -> dict[str, int] | None:
    return {"cost": 7} if resource == "demo" else None


def program(*expressions: str) -> SelectorProgram | str:
    compile_ = compiler()
    assert compile_ is not None, "the extra `cel` belongs to the test requirements"
    return compile_(expressions)


def holds(*expressions: str) -> bool:
    compiled = program(*expressions)
    assert not isinstance(compiled, str), compiled
    return compiled(CLUSTER, scores)
