"""Run the snippets of scripts/op_snippets.yaml on a GPU and write tests/data/op_extra.jsonl.

Each snippet runs in processes of its own, since a failed capture leaves its process broken: eagerly under PyTorch's
sync debug mode, then captured, then replayed three times on changed inputs and compared with eager. Rows have the form
of tests/data/op_atlas.jsonl.

    python scripts/measure_ops.py OUTPUT.jsonl       # needs one CUDA device and PyYAML; about two minutes on 16 cores
"""

from __future__ import annotations

import copy
import json
import sys
import textwrap
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import yaml

SNIPPETS = Path(__file__).resolve().parent / "op_snippets.yaml"
VARIED = ("x", "v", "idx", "mask", "spd", "scale")
"What changes between replays; shapes and ranges stay."


def state(device: torch.device) -> SimpleNamespace:
    torch.manual_seed(0)
    s = SimpleNamespace()
    s.x, s.v = torch.randn(64, 64, device=device), torch.randn(64, device=device)
    s.idx, s.idx_perm = torch.randint(0, 64, (64,), device=device), torch.randperm(64, device=device)
    s.mask = torch.rand(64, device=device) > 0.5
    s.tok, s.zero = torch.zeros(1, dtype=torch.int64, device=device), torch.zeros((), dtype=torch.int64, device=device)
    s.scale = torch.rand((), device=device) + 1
    s.spd = s.x @ s.x.T + 64 * torch.eye(64, device=device)
    s.lengths = torch.full((4,), 16, dtype=torch.int64, device=device)
    s.offs = torch.tensor([16, 32, 48, 64], dtype=torch.int32, device=device)
    s.buf, s.fbuf = torch.zeros(64, dtype=torch.int64, device=device), torch.zeros(64, device=device)
    s.cpu, s.cpu0, s.pin = torch.randn(64), torch.tensor(2.0), torch.randn(64).pin_memory()
    s.q = torch.randn(1, 8, 64, 64, device=device, dtype=torch.float16)
    s.count, s.gen, s.rng_state = 3, torch.Generator(device=device), torch.cuda.get_rng_state()
    s.param = torch.nn.Parameter(torch.randn(64, 64, device=device))
    s.mha = torch.nn.MultiheadAttention(64, 4, batch_first=True, device=device).eval()
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True, device=device)
    s.encoder = torch.nn.TransformerEncoder(layer, 1).eval().requires_grad_(False)
    s.bn, s.gru = torch.nn.BatchNorm1d(64, device=device), torch.nn.GRU(64, 64, batch_first=True, device=device)
    s.sgd, s.scaler = torch.optim.SGD([s.param], lr=0.1), torch.amp.GradScaler("cuda")
    s.adamwf = torch.optim.AdamW([s.param], lr=0.1, fused=True, capturable=True)
    return s


def refresh(s: SimpleNamespace, seed: int) -> None:
    """New values in place, the same ones for the same seed."""
    fresh = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 64, generator=fresh)
    values = {
        "x": x,
        "v": torch.randn(64, generator=fresh),
        "idx": torch.randint(0, 64, (64,), generator=fresh),
        "mask": torch.rand(64, generator=fresh) > 0.5,
        "spd": x @ x.T + 64 * torch.eye(64),
        "scale": torch.rand((), generator=fresh) + 1,
    }
    for name in VARIED:
        getattr(s, name).copy_(values[name])


def stepper(step: str, s: SimpleNamespace, device: torch.device) -> Any:
    space: dict[str, Any] = {"torch": torch, "F": F, "np": np, "s": s, "dev": device}
    exec(f"def step():\n{textwrap.indent(step, '    ')}\n    return out\n", space)
    return space["step"]


def eager_row(step: str) -> dict[str, Any]:
    device = torch.device("cuda:0")
    s = state(device)
    run = stepper(step, s, device)
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        run()
        torch.cuda.set_sync_debug_mode("default")
    return {"sync_debug_warnings": sum("called a synchronizing CUDA operation" in str(w.message) for w in caught)}


def capture_row(step: str) -> dict[str, Any]:
    device = torch.device("cuda:0")
    s = state(device)
    run = stepper(step, s, device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    # Host state (a counter, an optimizer's) is kept with the tensors of the eager twin, which steps as often.
    twin = {name: getattr(s, name).detach().clone() for name in ("fbuf", "buf", "param")}
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            out = run()
    except Exception as error:
        return {"capture": "fails", "error": summary(first(error))}
    same = []
    for seed in (1, 2, 3):
        refresh(s, seed)
        restore(s, twin)
        torch.manual_seed(seed)
        graph.replay()
        replayed = copy.deepcopy(out.detach())
        restore(s, twin)
        torch.manual_seed(seed)
        same.append("same" if torch.allclose(replayed, run(), equal_nan=True, rtol=1e-3, atol=1e-3) else "DIFF")
    return {"capture": "ok", "replay_vs_eager": same}


def first(error: BaseException) -> BaseException:
    """What the end of a capture raises hides the error that broke it in `__context__`."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:200]


def restore(s: SimpleNamespace, twin: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, value in twin.items():
            getattr(s, name).copy_(value)


def attempt(function: Any, step: str) -> dict[str, Any]:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        try:
            return dict(pool.submit(function, step).result(timeout=120))
        except Exception as error:
            return {"raised": summary(error)}


def row(name: str, step: str, seed: dict[str, Any]) -> dict[str, Any]:
    head = {"name": name, "step": step, "torch": torch.__version__, "gpu": "H200"}
    eager = attempt(eager_row, step)
    if "raised" in eager:
        return {**head, "eager": eager["raised"], "family": "invalid", "code": None}
    code = seed["codes"].get(name)
    families = sorted({one[:3] for one in ([code] if isinstance(code, str) else code or [])})
    done = {**head, **eager, **attempt(capture_row, step)}
    if name in seed["notes"]:
        done["note"] = seed["notes"][name]
    return {**done, "family": None if not families else families[0] if len(families) == 1 else families, "code": code}


def main() -> int:
    seed = yaml.safe_load(SNIPPETS.read_text(encoding="utf-8"))
    with ThreadPoolExecutor(12) as pool, open(sys.argv[1], "w", encoding="utf-8") as out:
        for done in pool.map(lambda item: row(*item, seed), seed["snippets"].items()):
            print(json.dumps(done), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
