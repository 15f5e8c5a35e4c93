"""`python -m graphsafe`."""

import sys

from graphsafe.cli import main

sys.exit(main())
