"""Capture every op of PyTorch's own test samples on a GPU, and write tests/data/op_samples.jsonl.

PyTorch tests its ops on sample inputs (`op_db`). Each sample is run eagerly under sync debug mode, and captured by
itself unless it waited there: what waits cannot be captured, and a failed capture breaks its process. A row says how
many samples of an op were captured and what those that failed looked like; an op all of whose samples were captured is
known to be clean for such arguments and no others.

    python scripts/sample_ops.py OUTPUT.jsonl      # needs one CUDA device and expecttest; some minutes on 16 cores
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

SPAWN = get_context("spawn")
"Importing the samples starts CUDA, after which forked children fail."
WORKERS = 14
SAMPLES = 8
FAILURES = 3
"An op that failed this often is not tried further."
SILENCE_S = 60


def main() -> int:
    slices = [list(range(start, len(op_db), WORKERS)) for start in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool, open(sys.argv[1], "w", encoding="utf-8") as out:
        for done in pool.map(measure_slice, slices):
            for row in done:
                if row["captured"] or row["failed"]:
                    print(json.dumps(row), file=out, flush=True)
    return 0


def measure_slice(numbers: list[int]) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    position, skip = 0, 0
    while position < len(numbers):
        ours, theirs = SPAWN.Pipe(duplex=False)
        child = SPAWN.Process(target=measure_from, args=(numbers[position:], skip, theirs))
        child.start()
        theirs.close()
        for number, index, result in messages(ours):
            op = op_db[number]
            row = rows.setdefault(number, new_row(op))
            position, skip = numbers.index(number), index + 1
            record(row, result)
        child.join(1)
        if child.is_alive():
            child.kill()
            child.join()
        number = numbers[position]
        row = rows.setdefault(number, new_row(op_db[number]))
        if child.exitcode == 0:
            break
        if child.exitcode != 3:  # it died without a word, in the sample after the last one told
            row["died"] += 1
            skip += 1
        if len(row["failed"]) >= FAILURES or row["died"] >= FAILURES or skip >= SAMPLES:
            position, skip = position + 1, 0
    return list(rows.values())


def new_row(op: Any) -> dict[str, Any]:
    head = {"name": op.name, "variant": op.variant_test_name, "aten": op.aten_name}
    return {**head, "torch": torch.__version__, "gpu": "H200", "captured": 0, "failed": [], "died": 0}


def record(row: dict[str, Any], result: dict[str, Any]) -> None:
    if result.get("skipped"):
        return
    if result["waits"] or "error" in result:
        row["failed"].append(result)
    else:
        row["captured"] += 1


def messages(connection: Connection) -> Iterator[Any]:
    """What a child says until it ends, or is silent for too long."""
    while connection.poll(SILENCE_S):
        try:
            yield connection.recv()
        except EOFError:
            return


def measure_from(numbers: list[int], skip: int, connection: Connection) -> None:
    """Measure until a capture fails; exit 3 then, 0 at the end."""
    warnings.simplefilter("ignore")
    for number in numbers:
        for index, sample in enumerate(samples_of(op_db[number])):
            if index < skip:
                continue
            result = measure_sample(op_db[number], sample)
            connection.send((number, index, result))
            if "error" in result:
                connection.close()
                os._exit(3)
        skip = 0
    connection.close()
    os._exit(0)


def samples_of(op: Any) -> Iterator[Any]:
    wanted = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
    dtype = next((dtype for dtype in wanted if dtype in op.supported_dtypes("cuda")), None)
    if dtype is None:
        return
    samples = iter(op.sample_inputs("cuda", dtype, requires_grad=False))
    for _ in range(SAMPLES):
        try:
            yield next(samples)
        except StopIteration:
            return


def measure_sample(op: Any, sample: Any) -> dict[str, Any]:
    def run() -> Any:
        return op.op(sample.input, *sample.args, **sample.kwargs)

    stream = torch.cuda.Stream()
    try:
        with torch.no_grad(), torch.cuda.stream(stream):
            run()
            waits = count_waits(run)
        torch.cuda.synchronize()
    except Exception:
        return {"skipped": True}
    result = {"waits": waits, "arguments": described(sample)}
    if waits:
        return result
    try:
        with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            run()
    except Exception as error:
        while error.__context__ is not None:
            error = error.__context__  # type: ignore[assignment]
        if "new seed" in str(error):  # the sample seeds the generator itself, to be repeatable
            return {"skipped": True}
        result["error"] = f"{type(error).__name__}: {error}".split("\n")[0][:120]
    return result


def count_waits(run: Any) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing CUDA operation" in str(warning.message) for warning in caught)


def described(sample: Any) -> str:
    shown = [described_value(value) for value in (sample.input, *sample.args)]
    return ", ".join(shown + [f"{name}={described_value(value)}" for name, value in sample.kwargs.items()])[:200]


def described_value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        shape = "x".join(map(str, value.shape)) or "0-d"
        return f"{value.device.type}:{str(value.dtype).removeprefix('torch.')}[{shape}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described_value, value))}]"
    return repr(value)


if __name__ == "__main__":
    sys.exit(main())
