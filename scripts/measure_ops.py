"""Run every snippet of scripts/op_snippets.yaml on a GPU and write what happened: rules/ops/torch-X.Y.json.

    python scripts/measure_ops.py --out rules/ops/torch-2.11.json     # three minutes on an H200 with 16 cores

Needs one CUDA device, PyYAML and NumPy. Each snippet is measured twice, in processes whose CUDA context nothing has
broken: a step that runs eagerly under PyTorch's instruments, and a plain capture with three replays on new inputs.
Processes are forked from a server that has imported torch; one that ends badly is replaced, and the next snippet goes
on. The file holds no times and no addresses, and its order is that of the names, so two runs can be compared.

What an entry says:
    step      the snippet
    eager     null, or the error where the step does not even run eagerly; then nothing else is known
    warnings  sync-debug warnings of one eager step
    waits     waits that PyTorch's GPU trace calls back for: {"stream": 1}
    ops       aten operations of the step, each with the waits inside it
    calls     PyTorch's Python functions of the step, each with the waits inside it
    alerts    operations that torch.use_deterministic_algorithms names as not deterministic
    repeats   whether four runs from the same state and seed give the same bits
    capture   "ok", "fails" or "dies" (the process ended)
    error     the first error of a failed capture
    generator "ok", or "poisoned" where nothing can be drawn after a failed capture
    nodes     the graph's nodes by kind
    replays   for three replays on new inputs "same" as an eager twin's step or "differs", or the error
    modes     the error where PyTorch's modes, which see operations and calls, do not bear the step
    instruments  the error where a step does not run under the GPU trace; then what it would have said is not known
    raised    the error where a measurement itself failed
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from op_snippets import MEASURED_SCHEMA, catalogue
from op_state import State, same
from torch.cuda import _gpu_trace
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

SERVER = get_context("forkserver")
SILENCE_S = 60
"A process that says nothing for so long is ended; the snippet is said to have died."
WARMUP = 3
REPLAYS = 3
NODE_KINDS = {
    0: "kernel",
    1: "memcpy",
    2: "memset",
    3: "host",
    4: "graph",
    5: "empty",
    6: "wait-event",
    7: "event-record",
}

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file to write; rules/ops/torch-X.Y.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("names", nargs="*", help="snippets to run (default: all)")
    arguments = parser.parse_args()
    names = arguments.names or list(catalogue().snippets)
    SERVER.set_forkserver_preload(["torch", "numpy", "yaml"])
    (head,) = measured(environment, ["environment"], 1, {}).values()
    captured = measured(capture_row, names, arguments.jobs, {"capture": "dies"})
    runs = [name for name in names if captured[name].get("eager") is None]
    watched = measured(instrumented_row, runs, arguments.jobs, {"instruments": "the process ended"})
    entries = {name: entry(name, watched.get(name, {}), captured[name]) for name in sorted(names)}
    arguments.out.write_text(file_text(head, entries), encoding="utf-8")
    counts = Counter(entry.get("capture", "not eager") for entry in entries.values())
    print(f"{arguments.out}: {len(entries)} snippets, {dict(sorted(counts.items()))}")
    return 0


def entry(name: str, watched: Row, captured: Row) -> Row:
    return {"step": catalogue().snippets[name].step, "eager": None, **watched, **captured}


def file_text(head: Row, entries: Mapping[str, Row]) -> str:
    lines = [f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}" for name, entry in entries.items()]
    return json.dumps({"schema": MEASURED_SCHEMA, **head})[:-1] + ', "entries": {\n' + ",\n".join(lines) + "\n}}\n"


# ---- processes -------------------------------------------------------------------------------------------------------
def measured(measure: Callable[[str], Row], names: Sequence[str], jobs: int, died: Row) -> dict[str, Row]:
    """What `measure` says of each name, in `jobs` chains of processes: each goes on until a row says that it broke.

    `died` is said of a name whose process ended without a word.
    """
    slices = [list(names[start::jobs]) for start in range(min(jobs, len(names)))]
    with ThreadPoolExecutor(max(1, len(slices))) as pool:
        parts = pool.map(lambda part: list(chain(measure, part, died)), slices)
        return {name: row for part in parts for name, row in part}


def chain(measure: Callable[[str], Row], names: list[str], died: Row) -> Iterator[tuple[str, Row]]:
    position = 0
    while position < len(names):
        ours, theirs = SERVER.Pipe(duplex=False)
        process = SERVER.Process(target=work, args=(measure, names[position:], theirs))
        process.start()
        theirs.close()
        for row in received(ours):
            yield names[position], row
            position += 1
        process.join(2)
        if process.is_alive():
            process.kill()
            process.join()
        if position < len(names) and process.exitcode not in (0, BROKEN):
            yield names[position], died
            position += 1


BROKEN = 3


def work(measure: Callable[[str], Row], names: Sequence[str], connection: Connection) -> None:
    """Measure until a row has broken this process; it ends without cleaning up, which could hang."""
    warnings.simplefilter("ignore")
    for name in names:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            try:
                row = measure(name)
            except Exception as error:
                row = {"raised": summary(error), "broken": True}
        broken = row.pop("broken", False)
        connection.send(row)
        if broken:
            connection.close()
            os._exit(BROKEN)
    connection.close()
    os._exit(0)


def received(connection: Connection) -> Iterator[Row]:
    """What a process says until it ends, or is silent for too long."""
    while connection.poll(SILENCE_S):
        try:
            yield connection.recv()
        except EOFError:
            return


# ---- one eager step, under instruments -------------------------------------------------------------------------------
WAITS: Counter[str] = Counter()


def instrumented_row(name: str) -> Row:
    snippets, device = catalogue(), torch.device("cuda", 0)
    step = snippets.snippets[name].step
    code = compile(step, f"<{name}>", "exec")
    row: Row = {}
    watch_waits()
    if "s.group" in step:
        start_process_group(device)
    s = State(snippets, device)
    try:
        for number in range(WARMUP):
            s.refresh(number)
            s.run(code)
        torch.cuda.synchronize()
    except Exception as error:
        return {"instruments": summary(error), "broken": True}
    row["warnings"], row["waits"] = sync_warnings(lambda: s.run(code))
    row["alerts"] = alerts(lambda: s.run(code))
    row["repeats"] = repeats(lambda: State(snippets, device).run(code))
    try:
        row["ops"], row["calls"] = operations(lambda: s.run(code))
    except Exception as error:  # no dispatch mode bears everything
        row |= {"ops": None, "calls": None, "modes": summary(error), "broken": True}
    return row


def watch_waits() -> None:
    if not WAITS:
        torch._C._activate_gpu_trace()
        WAITS["watched"] = 0
        _gpu_trace.register_callback_for_stream_synchronization(lambda *_: WAITS.update(["stream"]))
        _gpu_trace.register_callback_for_device_synchronization(lambda *_: WAITS.update(["device"]))
        _gpu_trace.register_callback_for_event_synchronization(lambda *_: WAITS.update(["event"]))


@contextmanager
def waits_counted() -> Iterator[Counter[str]]:
    before = Counter(WAITS)
    found: Counter[str] = Counter()
    try:
        yield found
    finally:
        found.update(WAITS - before)


def sync_warnings(run: Callable[[], Any]) -> tuple[int, dict[str, int]]:
    with warnings.catch_warnings(record=True) as caught, waits_counted() as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    said = sum("called a synchronizing CUDA operation" in str(warning.message) for warning in caught)
    return said, dict(sorted(waits.items()))


class Calls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with waits_counted() as waits:
            result = func(*args, **(kwargs or {}))
        self.waits[python_name(func)] += waits.total()
        return result


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with waits_counted() as waits:
            result = func(*args, **(kwargs or {}))
        self.waits[func.name()] += waits.total()
        return result


def python_name(func: Any) -> str:
    name = getattr(func, "__name__", "")
    if getattr(torch, name, None) is func:
        return f"torch.{name}"
    return resolve_name(func) or f"{getattr(func, '__module__', None) or 'torch'}.{name}"


def operations(run: Callable[[], Any]) -> tuple[dict[str, int], dict[str, int]]:
    with Operations() as ops, Calls() as calls:
        run()
    return dict(sorted(ops.waits.items())), dict(sorted(calls.waits.items()))


def alerts(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            run()
        finally:
            torch.use_deterministic_algorithms(False)
    said = (re.match(r"(\S+) does not have a deterministic implementation", str(one.message)) for one in caught)
    return sorted({match[1] for match in said if match})


def repeats(run: Callable[[], Any]) -> bool:
    outputs = []
    for _ in range(4):
        torch.manual_seed(0)
        outputs.append(run().detach().clone().contiguous().reshape(-1).view(torch.uint8))
    return all(torch.equal(outputs[0], other) for other in outputs[1:])


# ---- a plain capture, and replays against an eager twin --------------------------------------------------------------
def capture_row(name: str) -> Row:
    snippets, device = catalogue(), torch.device("cuda", 0)
    step = snippets.snippets[name].step
    code = compile(step, f"<{name}>", "exec")
    torch.cuda.set_device(device)
    if "s.group" in step:
        start_process_group(device)
    subject, twin = State(snippets, device), State(snippets, device)
    stream = torch.cuda.Stream(device)
    try:
        for s in (subject, twin):  # built on the default stream, as models are
            s.make_parts_of(step)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for number in range(WARMUP):
                for s in (subject, twin):
                    s.refresh(number)
                    torch.manual_seed(number)
                    s.run(code)
        torch.cuda.synchronize()
    except Exception as error:
        return {"eager": summary(error), "broken": True}
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    try:
        with torch.cuda.graph(graph, stream=stream):
            out = subject.run(code)
        nodes = node_counts(graph.raw_cuda_graph())
        if nodes:  # an empty graph that was kept can be neither instantiated nor launched
            graph.instantiate()
    except Exception as error:
        return {"capture": "fails", "error": summary(first(error)), "generator": generator(device), "broken": True}
    row: Row = {"capture": "ok", "nodes": nodes, "replays": []}
    try:
        for number in range(10, 10 + REPLAYS):
            subject.refresh(number)
            torch.manual_seed(number)
            if nodes:
                graph.replay()
            replayed = out.detach().clone()
            twin.refresh(number)
            torch.manual_seed(number)
            row["replays"].append("same" if same(replayed, twin.run(code).detach()) else "differs")
        torch.cuda.synchronize()
    except Exception as error:
        row["replays"].append(summary(error))
        row["broken"] = True
    return row


def first(error: BaseException) -> BaseException:
    """What the end of a capture raises hides the error that broke it in `__context__`."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def summary(error: BaseException) -> str:
    line = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", line)


def generator(device: torch.device) -> str:
    try:
        torch.randn(1, device=device)
    except Exception:
        return "poisoned"
    return "ok"


def node_counts(raw_graph: int) -> dict[str, int]:
    library = ctypes.CDLL(f"libcudart.so.{(torch.version.cuda or '').partition('.')[0]}")
    count = ctypes.c_size_t(0)
    library.cudaGraphGetNodes(ctypes.c_void_p(raw_graph), None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    library.cudaGraphGetNodes(ctypes.c_void_p(raw_graph), nodes, ctypes.byref(count))
    kinds: Counter[str] = Counter()
    for node in nodes:
        kind = ctypes.c_int(-1)
        library.cudaGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds[NODE_KINDS.get(kind.value, "other")] += 1
    return dict(sorted(kinds.items()))


# ---- what is not a snippet's own -------------------------------------------------------------------------------------
def start_process_group(device: torch.device) -> None:
    """One rank, over NCCL, for this process."""
    if torch.distributed.is_initialized():
        return
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    rendezvous = tempfile.mkdtemp()
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{rendezvous}/store", rank=0, world_size=1, device_id=device
    )


def environment(_: str) -> Row:
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": driver(),
        "device": torch.cuda.get_device_name(0),
        "how": f"scripts/measure_ops.py, {len(catalogue().snippets)} snippets",
    }


def driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
    return found[0] if found else None


if __name__ == "__main__":
    sys.exit(main())
