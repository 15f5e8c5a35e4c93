"""Distributions of `torch.distributions`. Their methods check values unless the checks are turned off, and each check
waits for the device."""

from __future__ import annotations

import re

from graphsafe.scan.execution.frame import Frame

DISTRIBUTIONS = "torch.distributions."
UNCHECKED = "[validate_args=False]"
"The suffix of a distribution's name if its methods do not check values."
ON_HOST = "[on the host]"
"""The suffix of a distribution's name if its parameters are on the host. Its methods wait only to check values that are
on the device."""
_TURNS_CHECKS_OFF = re.compile(r"\.set_default_validate_args\((?:value=)?False\)")
_SETS_CHECKS = re.compile(rb"\.set_default_validate_args\((?!(?:value=)?True\))")


def checks_are_off(frame: Frame) -> bool:
    """Return whether the checks of distributions are turned off: by the file itself, or perhaps by its package, with a
    value that the code does not show."""
    files = frame.project.files
    package, _, inside = frame.file.module.partition(".")

    def read() -> frozenset[str]:
        setting = (files.index(path) for path in files.names if _SETS_CHECKS.search(files.data(path) or b""))
        return frozenset(file.module.partition(".")[0] for file in setting if file is not None and "." in file.module)

    return bool(files.search(frame.path, _TURNS_CHECKS_OFF)) or (
        bool(inside) and package in files.table("packages that set checks", read)
    )
