"""The entry points for engines: functions that vLLM and SGLang call in each of their processes before work begins. They
start the watch even in processes with another PYTHONPATH. Both engines call an entry point without arguments and log
its exceptions. Without `graphsafe run` around the engine nothing happens."""

from __future__ import annotations

import os


def enter() -> None:
    """Watch this process if it belongs to a run; the entry point `vllm.general_plugins` and `sglang.srt.plugins`."""
    if os.environ.get("GRAPHSAFE_RUN"):
        from graphsafe.run.child.watch import begin

        begin()
