"""Workloads that run to completion: Jobs, and the CronJobs that create them."""

from datetime import datetime

from trimtab.api.kind import kind
from trimtab.api.kinds.native.defaults import workloads as workloads_defaults
from trimtab.api.kinds.native.pod import PodTemplateSpec
from trimtab.api.kinds.native.rules import workloads
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta, Object, Value


class JobSpec(Value):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None


class JobCondition(Value):
    type: str = ""
    status: str = "Unknown"
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class JobStatus(Value):
    conditions: tuple[JobCondition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int | None = None


@kind(
    group="batch",
    version="v1",
    plural="jobs",
    categories=["all"],
    status=True,
    custom=False,
    defaults=[workloads_defaults.job],
    validators=[workloads.check_job],
)
class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def has_condition(self, condition_type: str) -> bool:
        """Whether the condition of this type (Complete or Failed) is True."""
        return any(c.type == condition_type and c.status == "True" for c in self.status.conditions)


class JobTemplateSpec(Value):
    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Value):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


@kind(
    group="batch",
    version="v1",
    plural="cronjobs",
    short=["cj"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[workloads_defaults.cron_job],
    validators=[workloads.check_cron_job],
)
class CronJob(Object):
    spec: CronJobSpec = CronJobSpec()
