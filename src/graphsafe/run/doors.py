"""The entry points for engines: functions that vLLM and SGLang call in each of their processes before work begins.

Processes that an engine starts with another PYTHONPATH are entered this way. Both engines call an entry point without
arguments and log what it raises. Without `graphsafe run` around the engine nothing happens.
"""

from __future__ import annotations

import os


def enter() -> None:
    """Watch this process if it belongs to a run and is not watched yet. For `vllm.general_plugins` and
    `sglang.srt.plugins`."""
    if os.environ.get("GRAPHSAFE_RUN"):
        from graphsafe.run.child.begin import begin

        begin()
