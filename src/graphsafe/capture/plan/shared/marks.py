"""Writes a plan as marks for an engine: the functions to decorate, and the decorator for each."""

from __future__ import annotations

from collections.abc import Mapping

from graphsafe.report.model import Plan

CODE = "emitted.py"
"The name of the file with emitted code, in the folder that the children share."
FOUND = "as graphsafe found and verified it"
"The docstring of emitted code contains these words, perhaps with a line break."

ENGINES: Mapping[str, tuple[str, str, str]] = {
    "vllm": (
        "vLLM, with VLLM_USE_BREAKABLE_CUDAGRAPH=1",
        "from vllm.compilation.breakable_cudagraph import eager_break_during_capture",
        "@eager_break_during_capture",
    ),
    "sglang": (
        "SGLang, with the breakable backend of its CUDA graphs",
        "from sglang.srt.model_executor.runner_backend_utils.breakable_cuda_graph import eager_on_graph",
        "@eager_on_graph(True)",
    ),
}
"Engine -> its title, the import, and the mark."


def marks(plan: Plan, engine: str) -> str:
    """Return the marks to set, as comments. A marked function must not return a tensor that a later graph uses."""
    name, line, mark = ENGINES[engine]
    code = [f"# For {name}", "#", f"# {line}", "#"]
    code.append("# Marked functions have to write their results into tensors that they are given.")
    seen = set()
    for segment in plan.segments:
        place = segment.location
        if place is None or (place.path, place.line) in seen:
            continue
        seen.add((place.path, place.line))
        lines = f"line {place.line}" if place.end_line == place.line else f"lines {place.line} to {place.end_line}"
        code += ["", f"# {segment.code}: {segment.reason}", f"# {mark}"]
        code.append(
            f"# Mark {place.function} if it consists only of {lines} of {place.path}. "
            "Otherwise move these lines to a new function, and mark that function."
        )
    return "\n".join(code) + "\n"


def is_emitted(text: str) -> bool:
    """Return whether a file contains emitted code or marks, and no code of the user."""
    marked = tuple(f"# For {name}\n" for name, _, _ in ENGINES.values())
    return FOUND in " ".join(text[:1000].split()) or text.startswith(marked)
