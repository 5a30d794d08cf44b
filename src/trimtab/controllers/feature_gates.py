"""The feature gates of placement decisions, from the settings of the control plane."""

from trimtab.controllers.contract import View
from trimtab.controllers.settings import setting
from trimtab.decide.request import FeatureGates


def feature_gates(view: View) -> FeatureGates:
    return FeatureGates(
        components=bool(setting(view, "components")),
        workload_affinity=bool(setting(view, "workload-affinity")),
        overcommit_protection=bool(setting(view, "overcommit-protection")),
    )
