"""The command line: `eunoe`."""

import os

# before numpy is imported, here and in all child processes: beside an event loop its threads only wait, at full load;
# deriving a conversation of 1,000 sessions took twice the processor time
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
