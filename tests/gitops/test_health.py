"""Health checks for Argo CD (Lua) and Flux (CEL, kstatus) agree about the same objects, for every kind that they cover.

Argo CD runs the script with the global `obj` and reads the returned table. Flux evaluates `inProgress`, then `failed`, then
`current`, with the fields of the object as variables; an object that fits none of them is in progress. kstatus, which Flux uses
for kinds without expressions, reads the conditions Reconciling and Stalled and the observed generation.
"""

from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml
from cel_expr_python import cel

from trimtab.api.kind import find_kind
from trimtab.runtime.declarations import load_declarations

ROOT = Path(__file__).parents[2] / "gitops"
ARGO = yaml.safe_load((ROOT / "argocd" / "argocd-cm.yaml").read_text())["data"]
FLUX = yaml.safe_load((ROOT / "flux" / "kustomization.yaml").read_text())["spec"]["healthCheckExprs"]
PREFIX = "resource.customizations.health."
HEALTHY, PROGRESSING, DEGRADED, SUSPENDED = "Healthy", "Progressing", "Degraded", "Suspended"
TRIMTAB, KARMADA, OCM = "trimtab.dev/v1alpha1", "work.karmada.io/v1alpha2", "cluster.open-cluster-management.io"


def conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": status, "message": f"{type_} {status}"} for type_, status in states.items()]


def case(api: str, kind: str, expected: str, status: dict[str, Any], **more: Any) -> Any:
    obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "generation": 2}, "spec": {}, "status": status}
    return pytest.param({**obj, **more}, expected, id=f"{kind}-{expected}-{len(str(status))}")


APPLIED = conditions(Scheduled="True", FullyApplied="True")
BINDING = {"schedulerObservedGeneration": 2, "conditions": APPLIED}
CASES = [
    *(
        entry
        for kind in ("DisruptionBudget", "DisruptionPolicy", "PriorityOrder")
        for entry in (
            case(
                TRIMTAB,
                kind,
                HEALTHY,
                {"observedGeneration": 2, "conditions": conditions(Ready="True", Stalled="False")},
            ),
            case(TRIMTAB, kind, PROGRESSING, {"observedGeneration": 1, "conditions": conditions(Ready="True")}),
            case(TRIMTAB, kind, PROGRESSING, {}),
            case(
                TRIMTAB,
                kind,
                DEGRADED,
                {"observedGeneration": 2, "conditions": conditions(Ready="False", Stalled="True")},
            ),
        )
    ),
    case(TRIMTAB, "Move", PROGRESSING, {"started": "2030-01-01T00:00:00Z"}),
    case(TRIMTAB, "Move", HEALTHY, {"outcome": "Done"}),
    case(TRIMTAB, "Move", DEGRADED, {"outcome": "Reverted", "message": "not ready in time"}),
    case("apps.karmada.io/v1alpha1", "WorkloadRebalancer", PROGRESSING, {"observedWorkloads": []}),
    case("apps.karmada.io/v1alpha1", "WorkloadRebalancer", HEALTHY, {"finishTime": "2030-01-01T00:00:00Z"}),
    case(
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        DEGRADED,
        {"finishTime": "2030-01-01T00:00:00Z", "observedWorkloads": [{"workload": {"name": "w"}, "result": "Failed"}]},
    ),
    *(
        entry
        for kind in ("ResourceBinding", "ClusterResourceBinding")
        for entry in (
            case(KARMADA, kind, PROGRESSING, {}),
            case(KARMADA, kind, HEALTHY, {**BINDING, "aggregatedStatus": [{"clusterName": "a", "health": "Healthy"}]}),
            case(KARMADA, kind, PROGRESSING, {**BINDING, "aggregatedStatus": [{"clusterName": "a"}]}),
            case(
                KARMADA, kind, DEGRADED, {**BINDING, "aggregatedStatus": [{"clusterName": "a", "health": "Unhealthy"}]}
            ),
            case(KARMADA, kind, PROGRESSING, {**BINDING, "holds": [{"cluster": "a"}]}),
            case(KARMADA, kind, DEGRADED, {"conditions": conditions(Scheduled="False")}),
            case(KARMADA, kind, DEGRADED, {**BINDING, "conditions": [*APPLIED, *conditions(Stalled="True")]}),
        )
    ),
    case("work.karmada.io/v1alpha1", "Work", HEALTHY, {"conditions": conditions(Applied="True")}),
    case("work.karmada.io/v1alpha1", "Work", DEGRADED, {"conditions": conditions(Applied="False")}),
    case("work.karmada.io/v1alpha1", "Work", PROGRESSING, {}),
    case("cluster.karmada.io/v1alpha1", "Cluster", HEALTHY, {"conditions": conditions(Ready="True")}),
    case("cluster.karmada.io/v1alpha1", "Cluster", DEGRADED, {"conditions": conditions(Ready="False")}),
    case("cluster.karmada.io/v1alpha1", "Cluster", PROGRESSING, {"conditions": conditions(Ready="Unknown")}),
    case(f"{OCM}/v1beta1", "Placement", HEALTHY, {"conditions": conditions(PlacementSatisfied="True")}),
    case(f"{OCM}/v1beta1", "Placement", PROGRESSING, {"conditions": conditions(PlacementSatisfied="False")}),
    case(f"{OCM}/v1beta1", "Placement", DEGRADED, {"conditions": conditions(PlacementMisconfigured="True")}),
    case(f"{OCM}/v1", "ManagedCluster", HEALTHY, {"conditions": conditions(ManagedClusterConditionAvailable="True")}),
    case(f"{OCM}/v1", "ManagedCluster", DEGRADED, {"conditions": conditions(ManagedClusterConditionAvailable="False")}),
    case("work.open-cluster-management.io/v1", "ManifestWork", PROGRESSING, {"conditions": conditions(Applied="True")}),
    case("work.open-cluster-management.io/v1", "ManifestWork", DEGRADED, {"conditions": conditions(Applied="False")}),
    case(
        "work.open-cluster-management.io/v1",
        "ManifestWork",
        HEALTHY,
        {"conditions": conditions(Applied="True", Available="True")},
    ),
]


def argo_health(obj: dict[str, Any]) -> str:
    """The status that the script returns, in a fresh state without libraries of the system."""
    script = ARGO[f"{PREFIX}{obj['apiVersion'].partition('/')[0]}_{obj['kind']}"]
    lua = lupa.LuaRuntime(register_eval=False, unpack_returned_tuples=True)
    lua.execute("os, io, package, require, dofile, loadfile = nil")
    lua.globals().obj = to_lua(lua, obj)
    return str(lua.execute(script)["status"])


def to_lua(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: to_lua(lua, item) for key, item in value.items()})
    if isinstance(value, list):
        return lua.table_from([to_lua(lua, item) for item in value])
    return value


def flux_health(obj: dict[str, Any]) -> str:
    (checks,) = [c for c in FLUX if (c["apiVersion"], c["kind"]) == (obj["apiVersion"], obj["kind"])]
    for name, result in (("inProgress", PROGRESSING), ("failed", DEGRADED), ("current", HEALTHY)):
        if name in checks and holds(checks[name], obj):
            return result
    return PROGRESSING


def holds(expression: str, obj: dict[str, Any]) -> bool:
    variables = dict.fromkeys(("apiVersion", "kind", "metadata", "spec", "status"), cel.Type.DYN)
    program = cel.NewEnv(variables=variables).compile(expression)
    return bool(program.eval(data=obj).value())


def kstatus_health(obj: dict[str, Any]) -> str:
    """The generic rules of kstatus for custom resources."""
    status = obj.get("status") or {}
    found = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    if "observedGeneration" in status and status["observedGeneration"] != obj["metadata"]["generation"]:
        return PROGRESSING
    if found.get("Reconciling") == "True":
        return PROGRESSING
    if found.get("Stalled") == "True":
        return DEGRADED
    if found.get("Ready") in ("False", "Unknown"):
        return PROGRESSING
    return HEALTHY


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_argo_cd_and_flux_see_the_same_health(obj: dict[str, Any], expected: str) -> None:
    assert argo_health(obj) == expected
    assert flux_health(obj) == expected


@pytest.mark.parametrize(("obj", "expected"), [c for c in CASES if c.values[0]["apiVersion"] == TRIMTAB])
def test_kstatus_alone_understands_the_conditions_of_our_kinds(obj: dict[str, Any], expected: str) -> None:
    if obj["kind"] != "Move" and obj["status"]:
        assert kstatus_health(obj) == expected


def test_suspended_rebalancer_is_suspended_in_argo_cd() -> None:
    obj = {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {},
        "spec": {"suspend": True},
    }
    assert argo_health(obj) == SUSPENDED


def test_both_tools_cover_the_same_kinds_and_all_of_them_exist() -> None:
    load_declarations()
    covered = {key.removeprefix(PREFIX) for key in ARGO}
    assert covered == {f"{c['apiVersion'].partition('/')[0]}_{c['kind']}" for c in FLUX}
    assert all(find_kind(c["apiVersion"], c["kind"]) is not None for c in FLUX)
    assert covered == {f"{c.values[0]['apiVersion'].partition('/')[0]}_{c.values[0]['kind']}" for c in CASES}
