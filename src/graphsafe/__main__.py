"""`python -m graphsafe`."""

import sys

from graphsafe.entry import run

sys.exit(run())
