"""Watches captures and replays inside each Python process of the program."""

# A process imports this package while it imports torch. At that moment, every module of this package must already be
# fully imported.
import torch  # noqa: F401
