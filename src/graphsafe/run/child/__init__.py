"""The part of `graphsafe run` that lives in the processes of the program."""

# A watched process begins its watch while it imports torch. At that moment, no module of this package may be half
# imported.
import torch  # noqa: F401
