"""Watches captures and replays inside each Python process of the program."""

# Import torch first. In a watched process, the import of torch also begins the watch, which imports modules of this
# package. None of them may be half imported at that moment.
import torch  # noqa: F401
