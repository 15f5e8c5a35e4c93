"""The entry points for engines: functions that vLLM and SGLang call in each of their processes before work begins.

They start the watch even in processes with another PYTHONPATH. Both engines call an entry point without arguments and
log its exceptions. If the engine was not started by `graphsafe run`, nothing happens.
"""

from __future__ import annotations

import os


def enter() -> None:
    """Watch this process if it belongs to a run.

    This is the entry point for the groups `vllm.general_plugins` and `sglang.srt.plugins`.
    """
    if os.environ.get("GRAPHSAFE_RUN"):
        from graphsafe.run.child.watch import begin

        begin()
