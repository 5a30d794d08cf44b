"""The registry of controllers that make a simulated cluster a whole one; clusters of stories run without them."""

from functools import partial

from trimtab.controllers.contract import Controller, controller
from trimtab.registry import Registry

components: Registry[Controller] = Registry("cluster component")
component = partial(controller, registry=components)
