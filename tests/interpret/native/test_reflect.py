import pytest

from interpret.native.native_helpers import GENERATION, TRIMTAB, UPSTREAM, make_object
from trimtab.interpret.native.reflect import read_numbers
from trimtab.interpret.operations import InterpreterError


def test_status_without_template_generation_is_reflected() -> None:
    observed = make_object("Deployment", "apps/v1", status={"replicas": 1})
    assert TRIMTAB.reflect(observed) == {"replicas": 1, "generation": 2}


def test_autoscaler_reflects_current_and_desired_replicas() -> None:
    observed = make_object(
        "HorizontalPodAutoscaler", "autoscaling/v2", status={"currentReplicas": 1, "desiredReplicas": 2, "x": 1}
    )
    assert TRIMTAB.reflect(observed) == {"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": None}


def test_status_without_template_generation_is_an_error_in_profile_upstream() -> None:
    with pytest.raises(InterpreterError, match=GENERATION):
        UPSTREAM.reflect(make_object("Deployment", "apps/v1", status={"replicas": 1}))


def test_zeros_are_omitted_where_kubernetes_omits_them() -> None:
    status = {"replicas": 0, "readyReplicas": 0}
    assert TRIMTAB.reflect(make_object("ReplicaSet", "apps/v1", status=status)) == {"replicas": 0, "generation": 2}


def test_what_is_no_number_counts_as_none() -> None:
    status = {"a": 1, "b": "2", "c": None, "d": True, "e": 3.9}
    assert read_numbers(status, "abcdef") == {"a": 1, "b": 0, "c": 0, "d": 0, "e": 3, "f": 0}


def test_only_load_balancer_services_are_reflected() -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}
    assert TRIMTAB.reflect(make_object("Service", spec={"type": "ClusterIP"}, status=status)) is None
    assert TRIMTAB.reflect(make_object("Service", spec={"type": "LoadBalancer"}, status=status)) == status


def test_kind_without_a_rule_reflects_its_whole_status() -> None:
    assert TRIMTAB.reflect(make_object("Foo", "ex.io/v1", status={"phase": "Ready"})) == {"phase": "Ready"}
    assert TRIMTAB.reflect(make_object("Foo", "ex.io/v1")) is None
