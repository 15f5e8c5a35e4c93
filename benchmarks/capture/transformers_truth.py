"""Find the lines of transformers that wait for the device in a step of a causal language model, or only run.

Every model type that can be built from a tiny configuration runs a forward step and, if it takes a StaticCache, a
decode step. Each model has its own process. The measured step follows two warm-up steps. The lines that ran come from a
trace. The lines that waited come from PyTorch's sync debug mode and from its trace of synchronisations; a wait belongs
to the innermost frame inside transformers. The step is run once more while `is_current_stream_capturing` returns True.
Waits that also happen then are not behind a guard.

    python benchmarks/capture/transformers_truth.py OUT.json  # on a machine with a GPU; about 3 minutes with 16 cores
    python benchmarks/capture/transformers_truth.py --together OUT.json ONE.json TWO.json  # several runs put together
    python benchmarks/capture/transformers_truth.py --model llama  # one model, as JSON; without a GPU: lines that ran
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

TIMEOUT = 150.0
"The largest number of seconds for one model."
BUDGET = 480.0
"The number of seconds after which no further model is started."
WORKERS = 20

Place = tuple[str, int]


class Blame:
    """Records the innermost frame inside some packages, as a path that begins with the package's name, and a line.

    Frames of `__torch_function__`, in which a tensor subclass passes an operation on, are skipped.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._roots = tuple(f"{folder}{os.sep}" for folder in folders)
        self._parents = {root: len(root) - len(Path(root).name) - 1 for root in self._roots}

    def path(self, file: str) -> str | None:
        root = next((root for root in self._roots if file.startswith(root)), None)
        return None if root is None else file[self._parents[root] :].replace(os.sep, "/")

    def place(self, frame: FrameType | None) -> Place | None:
        while frame is not None:
            path = self.path(frame.f_code.co_filename)
            if path is not None and frame.f_code.co_name != "__torch_function__":
                return path, frame.f_lineno
            frame = frame.f_back
        return None


@contextmanager
def noting_waits(blame: Blame, waits: dict[Place, str]) -> Iterator[None]:
    """Add the lines that wait to `waits`, each with the description by PyTorch or the operation."""
    import torch
    from torch.cuda import _gpu_trace

    armed = [True]

    def note(what: str) -> None:
        place = blame.place(sys._getframe(1)) if armed[0] else None
        if place is not None:
            waits.setdefault(place, what)

    def shown(message: Any, *_: Any, **__: Any) -> None:
        if "synchronizing CUDA operation" in str(message):
            note("sync debug mode")

    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_device_synchronization(lambda: note("device synchronize"))
    _gpu_trace.register_callback_for_stream_synchronization(lambda stream: note("stream synchronize"))
    _gpu_trace.register_callback_for_event_synchronization(lambda event: note("event synchronize"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with mock.patch.object(warnings, "showwarning", shown):
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode("default")
                armed[0] = False


@contextmanager
def noting_lines(blame: Blame, ran: set[Place]) -> Iterator[None]:
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        path = blame.path(frame.f_code.co_filename)
        if path is None:
            return None
        if event == "line":
            ran.add((path, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def forward_step(model: Any, device: Any) -> Callable[[], Any]:
    import torch

    ids = torch.randint(3, 100, (2, 16), device=device)
    return lambda: model(input_ids=ids)


def decode_step(model: Any, device: Any) -> Callable[[], Any]:
    """Return a step that reads one token of each sequence, after a prompt of eight tokens.

    Some models make a mask that is narrower than a static cache, so they get a mask of the cache's width.
    """
    import torch
    from transformers import StaticCache

    prompt = torch.randint(3, 100, (2, 8), device=device)
    token = prompt[:, -1:].contiguous()
    wide = {"attention_mask": torch.ones(2, 64, dtype=torch.long, device=device)}
    error: Exception | None = None
    for mask in ({}, wide):
        cache = StaticCache(config=model.config, max_cache_len=64)
        try:
            model(input_ids=prompt, past_key_values=cache, use_cache=True, **mask)
        except RuntimeError as raised:
            error = error or raised
        else:
            return functools.partial(model, input_ids=token, past_key_values=cache, use_cache=True, **mask)
    assert error is not None
    raise error


def observe(make: Callable[[Any, Any], Callable[[], Any]], model: Any, device: Any) -> dict[str, Any]:
    """Return the facts about a step after two other steps. If the step raises an error, its facts before the error
    count."""
    import transformers

    return observed(lambda: make(model, device), Blame([Path(transformers.__file__).parent]), device)


def observed(make: Callable[[], Callable[[], Any]], blame: Blame, device: Any) -> dict[str, Any]:
    """The same of the step that `make` gives, with what waits by itself and beside it."""
    import torch

    waits: dict[Place, str] = {}
    in_captures: dict[Place, str] = {}
    ran: set[Place] = set()
    status = "ran"
    try:
        step = make()
        for _ in range(2):
            step()
    except Exception as error:
        # Only the first line: the others may name folders of this machine.
        status = f"{type(error).__name__}: {error}".partition("\n")[0][:200]

        def step() -> Any:
            with contextlib.suppress(Exception):
                make()()

    if device.type == "cuda":
        with noting_waits(blame, waits), contextlib.suppress(Exception):
            step()
        capturing = mock.patch("torch.cuda.is_current_stream_capturing", lambda: True)
        with capturing, noting_waits(blame, in_captures), contextlib.suppress(Exception):
            step()
    with noting_lines(blame, ran), contextlib.suppress(Exception):
        step()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return {
        "status": status,
        "ran": sorted(ran),
        "waits": [[*place, what] for place, what in sorted(waits.items())],
        "waits_in_captures": sorted(in_captures),
    }


def one_model(model_type: str) -> dict[str, Any]:
    import torch
    from tiny_models import build

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    try:
        model = build(model_type, device)
    except Exception as error:
        return {"built": str(error)[:200]}
    with torch.no_grad():
        return {
            "built": "yes",
            "forward": observe(forward_step, model, device),
            "decode": observe(decode_step, model, device),
        }


def in_child(model_type: str) -> dict[str, Any]:
    result, failure = told_by([__file__, "--model", model_type], TIMEOUT)
    return {"built": failure} if result is None else result


def told_by(arguments: Sequence[str], timeout: float) -> tuple[dict[str, Any] | None, str]:
    """Return the JSON that a separate Python process prints after RESULT. Without a result, return None and the
    reason."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return None, "timeout"
    _, mark, last = done.stdout.rpartition("\nRESULT ")
    return (json.loads(last), "") if mark else (None, f"exit {done.returncode}: {done.stderr[-200:]}")


def combined(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return, for each file, the ranges of lines that ran, and the lines that waited, with the models and steps of the
    waits."""
    ran: dict[str, set[int]] = {}
    waits: dict[str, dict[int, dict[str, Any]]] = {}
    for model, result in sorted(results.items()):
        for kind in ("forward", "decode"):
            step = result.get(kind, {})
            for path, line in step.get("ran", ()):
                ran.setdefault(path, set()).add(line)
            captured = {(path, line) for path, line in step.get("waits_in_captures", ())}
            for path, line, what in step.get("waits", ()):
                ran.setdefault(path, set()).add(line)
                entry = waits.setdefault(path, {}).setdefault(line, {"what": what, "steps": [], "in_captures": False})
                entry["steps"].append(f"{model} {kind}")
                entry["in_captures"] |= (path, line) in captured
    return {
        "models": {
            model: {
                "built": result["built"],
                **{kind: result[kind]["status"] for kind in ("forward", "decode") if kind in result},
            }
            for model, result in sorted(results.items())
        },
        **by_file(ran, waits),
    }


def by_file(ran: Mapping[str, set[int]], waits: Mapping[str, Mapping[int, Any]]) -> dict[str, Any]:
    return {
        "ran": {path: ranges(lines) for path, lines in sorted(ran.items())},
        "waits": {path: {str(line): lines[line] for line in sorted(lines)} for path, lines in sorted(waits.items())},
    }


def ranges(lines: set[int]) -> list[list[int]]:
    """Return the runs of consecutive lines, sorted. Each run is its first and its last line."""
    runs: list[list[int]] = []
    for line in sorted(lines):
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


def together(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join several runs: the lines that ran or waited in any of them and, for each model, the run that came
    furthest."""
    ran: dict[str, set[int]] = {}
    waits: dict[str, dict[int, dict[str, Any]]] = {}
    models: dict[str, Mapping[str, str]] = {}
    for run in runs:
        for path, spans in run["ran"].items():
            ran.setdefault(path, set()).update(line for first, last in spans for line in range(first, last + 1))
        for path, lines in run["waits"].items():
            for line, wait in lines.items():
                known = waits.setdefault(path, {}).setdefault(int(line), {**wait, "steps": [], "in_captures": False})
                known["steps"] = sorted({*known["steps"], *wait["steps"]})
                known["in_captures"] |= wait["in_captures"]
        for model, status in run["models"].items():
            models[model] = max(status, models.get(model, {}), key=lambda found: [*found.values()].count("ran"))
    return {
        "versions": runs[-1]["versions"],
        "models": dict(sorted(models.items())),
        **by_file(ran, waits),
    }


def main() -> int:
    if sys.argv[1] == "--together":
        runs = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[3:]]
        Path(sys.argv[2]).write_text(json.dumps(together(runs), separators=(",", ":")) + "\n", encoding="utf-8")
        return 0
    if sys.argv[1] == "--model":
        result = one_model(sys.argv[2])
        print("\nRESULT " + json.dumps(result))
        return 0
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    models = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    begun = time.monotonic()
    results: dict[str, dict[str, Any]] = {}

    def run(model: str) -> dict[str, Any]:
        return in_child(model) if time.monotonic() - begun < BUDGET - TIMEOUT else {"built": "not started in time"}

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for model, result in zip(models, pool.map(run, models), strict=True):
            results[model] = result
    # Only now: children that start while this process holds the device would be none the worse, but it needs none.
    truth = {
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": sys.version.split()[0],
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        },
        **combined(results),
    }
    Path(sys.argv[1]).write_text(json.dumps(truth, separators=(",", ":")) + "\n", encoding="utf-8")
    steps = [result.get(kind, {}).get("status") for result in results.values() for kind in ("forward", "decode")]
    print(f"{steps.count('ran')} steps of {sum(r['built'] == 'yes' for r in results.values())} models of {len(models)}")
    print(f"{sum(last - first + 1 for runs in truth['ran'].values() for first, last in runs)} lines ran")
    print(f"{sum(map(len, truth['waits'].values()))} lines waited, in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
