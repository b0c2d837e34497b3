"""The end of a process whose libraries still have threads at work."""

import subprocess
import sys

ENDS = """
import atexit
from eunoe.deploy.cli.main import run_to_exit

def command():
    import obstore
    print("done")
    raise SystemExit(69)

atexit.register(print, "taken down")
run_to_exit(command)
"""


def test_an_interpreter_into_which_obstore_may_call_is_not_taken_down():
    """A late answer of its threads would abort the process, in one of four of those that end with a fault."""
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (69, "done\n")
