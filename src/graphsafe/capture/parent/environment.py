"""Describes the machine for a report: versions, devices, and an allow-list of environment variables."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from graphsafe.capture.answers.build import Platform
from graphsafe.environment_variables import recorded
from graphsafe.report.model import Environment


def environment(built: Sequence[Platform], facts: str, extra: Sequence[str]) -> Environment:
    """Return the report's environment. `built` has the torch version and the device of each build child. `extra` has
    further names of variables, from the configuration."""
    first = next(iter(built), Platform())
    return Environment(
        python=platform.python_version(),
        torch=first.torch,
        cuda=first.cuda,
        driver=first.driver,
        devices=tuple(dict.fromkeys(one.device for one in built if one.device)),
        facts=facts,
        settings=recorded(extra),
        libraries=dict(sorted(first.libraries.items())),
    )
