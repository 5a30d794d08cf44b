from api.kinds.kind_helpers import decode
from trimtab.api.kinds.native.batch import CronJob, Job


def test_job_has_a_condition_only_when_its_status_is_true() -> None:
    conditions = [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}]
    job = decode(Job, {"metadata": {"name": "j"}, "status": {"conditions": conditions}})
    assert job.has_condition("Complete")
    assert not job.has_condition("Failed")
    assert not job.has_condition("Suspended")


def test_new_job_has_no_condition() -> None:
    assert not decode(Job, {"metadata": {"name": "j"}}).has_condition("Complete")


def test_cron_job_keeps_the_spec_of_its_jobs() -> None:
    spec = {"schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": {"backoffLimit": 0}}}
    cron_job = decode(CronJob, {"metadata": {"name": "c"}, "spec": spec})
    assert (cron_job.spec.schedule, cron_job.spec.time_zone) == ("*/5 * * * *", "Etc/UTC")
    assert cron_job.spec.job_template.spec.backoff_limit == 0
