"""The feature gates of placement decisions, from the settings of the control plane."""

from trimtab.controllers.contract import View
from trimtab.controllers.settings import setting
from trimtab.decide.request import Gates


def feature_gates(view: View) -> Gates:
    return Gates(components=bool(setting(view, "components")))
