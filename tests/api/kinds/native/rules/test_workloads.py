from typing import Any

import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.kinds.native.rules.workloads import check_cron_job
from trimtab.api.value import Raw

WORKLOAD: Raw = {
    "metadata": {"name": "w"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "n"}]}},
    },
}
JOB: Raw = {
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "n"}]}}},
}
CRON_JOB: Raw = {"metadata": {"name": "c"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": JOB["spec"]}}}


@pytest.mark.parametrize(
    ("api_version", "kind", "raw"),
    [
        ("apps/v1", "Deployment", WORKLOAD),
        ("apps/v1", "StatefulSet", WORKLOAD),
        ("apps/v1", "DaemonSet", WORKLOAD),
        ("apps/v1", "ReplicaSet", WORKLOAD),
        ("batch/v1", "Job", JOB),
        ("batch/v1", "CronJob", CRON_JOB),
    ],
    ids=lambda part: str(part)[:20],
)
def test_valid_workloads_are_accepted_on_create_and_update(api_version: str, kind: str, raw: Raw) -> None:
    assert validation_error(api_version, kind, raw) == ""
    assert validation_error(api_version, kind, raw, raw) == ""


POD_SPEC = ("template", "spec")


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (("replicas",), -1, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (("selector",), None, "spec.selector: Required value"),
        (
            ("template", "metadata", "labels"),
            {"app": "x"},
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`',
        ),
        ((*POD_SPEC, "containers"), [], "spec.template.spec.containers: Required value"),
        (
            (*POD_SPEC, "containers", 0, "image"),
            None,
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            (*POD_SPEC, "restartPolicy"),
            "Never",
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        ),
        (
            ("strategy",),
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            ("strategy",),
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
    ],
)
def test_invalid_deployment_is_rejected(path: tuple[str | int, ...], value: object, error: str) -> None:
    assert validation_error("apps/v1", "Deployment", with_change(WORKLOAD, "spec", *path, to=value)) == error


def test_selector_of_a_deployment_is_immutable() -> None:
    changed = with_change(WORKLOAD, "spec", "selector", "matchLabels", to={"app": "x"})
    changed = with_change(changed, "spec", "template", "metadata", "labels", to={"app": "x"})
    assert validation_error("apps/v1", "Deployment", changed, WORKLOAD) == (
        'spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable'
    )


def test_unchanged_invalid_spec_is_accepted_on_update() -> None:
    invalid = with_change(WORKLOAD, "spec", "replicas", to=-1)
    relabeled = with_change(invalid, "metadata", "labels", to={"a": "b"})
    assert validation_error("apps/v1", "Deployment", relabeled, invalid) == ""


def test_stateful_set_may_change_its_replicas_but_not_its_service() -> None:
    assert validation_error("apps/v1", "StatefulSet", with_change(WORKLOAD, "spec", "replicas", to=3), WORKLOAD) == ""
    error = validation_error("apps/v1", "StatefulSet", with_change(WORKLOAD, "spec", "serviceName", to="x"), WORKLOAD)
    assert error.startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas'")


def test_daemon_set_must_allow_some_pods_to_be_replaced() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}
    daemon_set = with_change(WORKLOAD, "spec", "updateStrategy", to=strategy)
    assert validation_error("apps/v1", "DaemonSet", daemon_set) == (
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"
    )


def test_replication_controller_needs_a_template() -> None:
    controller = {"metadata": {"name": "r"}, "spec": {"selector": {"app": "w"}}}
    assert validation_error("v1", "ReplicationController", controller) == "spec.template: Required value"


def test_pods_of_a_job_must_not_always_restart() -> None:
    job = with_change(JOB, "spec", *POD_SPEC, "restartPolicy", to="Always")
    assert validation_error("batch/v1", "Job", job) == (
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    )


def test_completions_of_a_job_are_immutable() -> None:
    assert validation_error("batch/v1", "Job", with_change(JOB, "spec", "completions", to=7), JOB) == (
        "spec.completions: Invalid value: 7: field is immutable"
    )


def test_completions_of_an_indexed_job_change_together_with_its_parallelism() -> None:
    job = with_change(JOB, "spec", "completionMode", to="Indexed")
    before = with_change(with_change(job, "spec", "completions", to=2), "spec", "parallelism", to=2)
    alone = with_change(before, "spec", "completions", to=3)
    assert validation_error("batch/v1", "Job", alone, before) == (
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    )
    both = with_change(alone, "spec", "parallelism", to=3)
    assert validation_error("batch/v1", "Job", both, before) == ""


def test_manager_of_a_job_is_immutable() -> None:
    assert validation_error("batch/v1", "Job", with_change(JOB, "spec", "managedBy", to="example.com/x"), JOB) == (
        'spec.managedBy: Invalid value: "example.com/x": field is immutable'
    )


def test_pods_of_an_indexed_job_have_valid_host_names() -> None:
    job = with_change(JOB, "spec", "completionMode", to="Indexed")
    job = with_change(with_change(job, "spec", "completions", to=1000), "metadata", "name", to="j" * 61)
    assert "will not able to create pod with invalid DNS label" in validation_error("batch/v1", "Job", job)


def test_suspended_job_may_change_only_where_its_pods_run() -> None:
    suspended = with_change(JOB, "spec", "suspend", to=True)
    changed = with_change(suspended, "spec", *POD_SPEC, "terminationGracePeriodSeconds", to=7)
    assert validation_error("batch/v1", "Job", changed, suspended).startswith("spec.template: Invalid value")
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    changed = with_change(suspended, "spec", *POD_SPEC, "affinity", to=affinity)
    assert validation_error("batch/v1", "Job", changed, suspended) == ""


def test_template_of_a_suspended_job_may_change_until_it_starts() -> None:
    suspended = with_change(JOB, "spec", "suspend", to=True)
    changed = with_change(suspended, "spec", *POD_SPEC, "nodeSelector", to={"zone": "a"})
    assert validation_error("batch/v1", "Job", changed, suspended) == ""
    started = {**suspended, "status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert validation_error("batch/v1", "Job", changed, started).startswith("spec.template: Invalid value")


def test_schedule_of_a_cron_job_is_parsed() -> None:
    assert validation_error("batch/v1", "CronJob", with_change(CRON_JOB, "spec", "schedule", to="often")) == (
        'spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]'
    )


def test_time_zone_in_a_schedule_is_refused() -> None:
    cron_job = with_change(CRON_JOB, "spec", "schedule", to="TZ=UTC 0 * * * *")
    assert validation_error("batch/v1", "CronJob", cron_job) == (
        'spec.schedule: Invalid value: "TZ=UTC 0 * * * *": '
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    )
    assert validation_error("batch/v1", "CronJob", cron_job, with_change(cron_job, "spec", "suspend", to=True)) == ""
    both = with_change(cron_job, "spec", "timeZone", to="UTC")
    assert "cannot use both timeZone field and TZ" in validation_error("batch/v1", "CronJob", both, cron_job)


def test_policies_in_the_template_of_a_cron_job_are_checked() -> None:
    cron_job = with_change(CRON_JOB, "spec", "jobTemplate", "spec", "backoffLimitPerIndex", to=1)
    assert validation_error("batch/v1", "CronJob", cron_job) == (
        "spec.jobTemplate.spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"
    )


def test_name_of_a_cron_job_is_limited_to_52_characters() -> None:
    assert validation_error("batch/v1", "CronJob", with_change(CRON_JOB, "metadata", "name", to="c" * 52)) == ""
    assert validation_error("batch/v1", "CronJob", with_change(CRON_JOB, "metadata", "name", to="c" * 53)).endswith(
        "must be no more than 52 characters"
    )


def test_unknown_time_zone_is_refused_unless_it_is_stored() -> None:
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}

    def cron_job(zone: str) -> dict:
        spec = {"schedule": "* * * * *", "timeZone": zone, "jobTemplate": {"spec": {"template": template}}}
        return {"metadata": {"name": "a"}, "spec": spec}

    def zone_faults(new: str, old: str | None) -> list[str]:
        causes = check_cron_job(cron_job(new), cron_job(old) if old else None)
        return [cause.message for cause in causes if cause.field == "spec.timeZone"]

    assert zone_faults("Europe/Berlin", None) == []
    assert zone_faults("bad-zone", None) == ['Invalid value: "bad-zone": unknown time zone bad-zone']
    assert zone_faults("bad-zone", "bad-zone") == []


def test_pod_templates_are_checked() -> None:
    def error(spec: Raw) -> str:
        return validation_error("v1", "PodTemplate", {"metadata": {"name": "t"}, "template": {"spec": spec}})

    assert error({"containers": [{"name": "a", "image": "b"}]}) == ""
    assert error({"containers": []}) == "template.spec.containers: Required value"


def test_controller_revisions_are_checked() -> None:
    def error(old: Raw | None = None, **fields: Any) -> str:
        return validation_error("apps/v1", "ControllerRevision", {"metadata": {"name": "r"}, **fields}, old)

    assert error(revision=1, data={"a": 1}) == ""
    assert error(revision=1) == "data: Required value: data is mandatory"
    assert error(revision=-1, data={}) == "revision: Invalid value: -1: must be greater than or equal to 0"
    old = {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}}
    assert error(old, revision=1, data={"a": 2}) == 'data: Invalid value: {"a":2}: field is immutable'
