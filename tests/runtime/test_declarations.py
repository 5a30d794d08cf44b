import subprocess
import sys

SCRIPT = """
from trimtab.controllers.contract import controllers
from trimtab.runtime.declarations import load_declarations
before = set(controllers.values())
load_declarations()
print(len(before), len(set(controllers.values())) > 20)
"""


def test_controllers_are_registered_by_loading_and_not_before() -> None:
    """In a new process: in this one, other tests have imported controllers."""
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0", "True"]
