"""The registry of controllers that every simulated cluster runs, separate from those of the control plane."""

from functools import partial

from trimtab.controllers.contract import Controller, controller
from trimtab.registry import Registry

workloads: Registry[Controller] = Registry("workload controller")
workload = partial(controller, registry=workloads)
