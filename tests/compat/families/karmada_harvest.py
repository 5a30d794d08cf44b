"""Numbers of Karmada's own table tests, restated as scheduling cases: same format, same comparison."""

from compat.families.karmada_scheduling import run

__all__ = ["run"]
