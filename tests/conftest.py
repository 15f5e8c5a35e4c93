"""What tests of every part share."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from graphsafe.report.schema import report_schema

# Test processes fill the cores; torch's own threads would wait for each other, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Whoever is started in the background is deaf to Ctrl-C, and so are its children, which tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

ValidReport = Callable[[str], Any]


@pytest.fixture(scope="session")
def valid_report() -> ValidReport:
    """Parse a report's JSON text and hold it against the shipped schema."""
    validator = jsonschema.Draft202012Validator(report_schema())

    def parse(text: str) -> Any:
        report = json.loads(text)
        validator.validate(report)
        return report

    return parse
