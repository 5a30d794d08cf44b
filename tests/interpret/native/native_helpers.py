"""Objects and interpreters for tests of the native rules."""

from typing import Any

from trimtab.interpret.interpreter import Interpreter

TRIMTAB, UPSTREAM = Interpreter.of(), Interpreter.of(profile="upstream")
GENERATION = "resourcetemplate.karmada.io/generation"


def make_object(kind: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ns", "generation": 2},
        **parts,
    }


def member_item(cluster: str, **status: Any) -> dict[str, Any]:
    return {"clusterName": cluster, "applied": True, "status": status}


def deployment(**spec: Any) -> dict[str, Any]:
    return make_object("Deployment", "apps/v1", spec={"replicas": 1, "template": {"spec": spec}})


def stateful_set(**status: Any) -> dict[str, Any]:
    return make_object("StatefulSet", "apps/v1", spec={"replicas": 2}, status=status)
