"""Which bindings this scheduler schedules."""

from trimtab.api.kinds.work import Binding
from trimtab.controllers import well_known

CLAIM_LABELS = (*well_known.POLICY_ID_LABELS, well_known.BINDING_MANAGED_BY)
SCHEDULER_NAMES = ("", "default-scheduler")


def is_scheduled_here(binding: Binding) -> bool:
    """Whether the binding has a policy or serves an object without one, names this scheduler, and scheduling is not suspended."""
    suspended = binding.spec.suspension is not None and binding.spec.suspension.scheduling
    claimed = any(binding.metadata.labels.get(label) for label in CLAIM_LABELS)
    return claimed and not suspended and binding.spec.scheduler_name in SCHEDULER_NAMES
