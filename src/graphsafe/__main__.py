"""`python -m graphsafe`."""

import sys

from graphsafe.cli import run

sys.exit(run())
