"""Decide for each target whether eager execution and graph replay agree.

python oracle.py first/labels.json [--only SUBSTR] [--jobs 8] [--steps 400] [--timeout 60] [-o oracle.json]
python oracle.py first/labels.json --device cpu       (no graphs: only checks that every factory builds and steps with changed inputs)

Each target runs in two forked children: one captures after three warm-up steps on an explicit stream and replays,
the other steps eagerly after the same warm-up. Both see the same inputs, seeds and (shifted) clocks at step k.
Labels with "oracle": "fresh" are compared with a newly built target at each of a few steps instead of a warmed one;
"bucket:axis=a,b": earlier buckets are built and stepped in the replaying process, the last one is compared with one built alone;
"reasoned" ones (races) are run, but their values prove nothing.
"""
import argparse
import dataclasses
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path(next((word for word in sys.argv[1:] if word.endswith("labels.json")), "labels.json")).resolve().parent
WARMUP = 3
FRESH_AT = (0, 1, 2, 7, 30)

real_time, real_monotonic, real_perf = time.time, time.monotonic, time.perf_counter
shift = [0.0]


def shift_clocks():
    time.time = lambda: real_time() + shift[0]
    time.monotonic = lambda: real_monotonic() + shift[0]
    time.perf_counter = lambda: real_perf() + shift[0]
    time.time_ns = lambda: int(time.time() * 1e9)
    time.monotonic_ns = lambda: int(time.monotonic() * 1e9)
    time.perf_counter_ns = lambda: int(time.perf_counter() * 1e9)


def seed(k):
    import numpy as np
    import torch

    random.seed(k)
    np.random.seed(k % 2**31)
    torch.manual_seed(k)


def leaves(x, depth=0):
    """Yield the tensors and arrays of a structure, in order."""
    import numpy as np
    import torch

    if isinstance(x, (torch.Tensor, np.ndarray)):
        yield x
    elif depth > 6:
        return
    elif isinstance(x, dict):
        for v in x.values():
            yield from leaves(v, depth + 1)
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from leaves(v, depth + 1)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        for f in dataclasses.fields(x):
            yield from leaves(getattr(x, f.name), depth + 1)
    elif hasattr(x, "__slots__") or (hasattr(x, "__dict__") and not callable(x) and type(x).__module__ not in ("builtins",)):
        for v in list(getattr(x, "__dict__", {}).values()):
            yield from leaves(v, depth + 1)


def other_values(t, k, i):
    """Return new legal values for a tensor whose first values were `t` (on the CPU)."""
    import torch

    g = torch.Generator().manual_seed(100_003 * (i + 1) + k)
    n = t.numel()
    if n == 0:
        return t.clone()
    if t.dtype == torch.bool:
        if n == 1:
            return torch.full_like(t, bool(t) ^ bool(k % 2 == 0))
        return t.flatten()[torch.randperm(n, generator=g)].view(t.shape) if k % 3 else torch.rand(t.shape, generator=g) > 0.4
    if t.is_complex():
        return torch.complex(other_values(t.real.contiguous(), k, i), other_values(t.imag.contiguous(), k, i + 50))
    if t.is_floating_point():
        lo, hi = t.min(), t.max()
        if lo == hi:
            return t * (0.6 + 0.8 * torch.rand((), generator=g, dtype=torch.float64)).to(t.dtype)
        return (lo + (hi - lo) * torch.rand(t.shape, generator=g, dtype=torch.float64)).to(t.dtype)
    lo, hi = int(t.min()), int(t.max())
    flat = t.flatten()
    if n == 1:
        return torch.randint(0, hi + 1, t.shape, generator=g, dtype=t.dtype) if hi > 0 else t.clone()
    if len(set(flat.tolist())) == n:
        picked = (torch.randperm(hi - lo + 1, generator=g)[:n] + lo).to(t.dtype)
        if bool((flat.sort()[0] == flat).all()):
            picked = picked.sort()[0]
        return picked.view(t.shape)
    return torch.randint(lo, hi + 1, t.shape, generator=g, dtype=t.dtype)


class Target:
    loaded = {}

    def __init__(self, name, device, again=False, **axes):
        import numpy as np
        import torch

        file, factory = name.split(":")
        folder = FOLDER / file
        sys.path[:0] = [str(folder.parent), str(HERE / "stub")]
        if not again or file not in Target.loaded:
            spec = importlib.util.spec_from_file_location("target_" + folder.stem, folder)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            Target.loaded[file] = module
        module = Target.loaded[file]
        seed(0)
        made = getattr(module, factory)(device, **axes)
        self.refresh = None
        if hasattr(made, "refresh"):
            self.fn, self.args, self.kwargs, self.refresh = made.fn, made.args, made.kwargs, made.refresh
        else:
            self.fn, self.args, self.kwargs = (*made, {})[:3]
        self.np = np
        self.inputs = list(leaves((self.args, self.kwargs)))
        self.first = [torch.as_tensor(t).detach().cpu().clone() for t in self.inputs]

    def set_inputs(self, k):
        import torch

        if self.refresh is not None:
            self.refresh(self.args, self.kwargs, k)
            return
        for i, (t, was) in enumerate(zip(self.inputs, self.first)):
            new = other_values(was, k, i)
            if isinstance(t, self.np.ndarray):
                t[...] = new.numpy()
            else:
                with torch.no_grad():
                    t.copy_(new)

    def step(self):
        return self.fn(*self.args, **self.kwargs)

    def seen(self, out, k):
        """Return what a user could look at after step k, on the CPU."""
        import torch

        found = [t for t in leaves(out) if isinstance(t, torch.Tensor)]
        found += [t for t in self.inputs if isinstance(t, torch.Tensor)]
        if k % 50 == 0 and isinstance(self.fn, torch.nn.Module):
            found += list(self.fn.state_dict().values())
        result = []
        for t in found:
            t = t.detach()
            if t.is_complex():
                t = torch.view_as_real(t)
            t = t.cpu().double().flatten()
            if t.numel() > 1024:
                t = torch.cat([t.sum().view(1), t[:: t.numel() // 512 + 1]])
            result.append(t)
        return result


def buckets(mode):
    """Return the buckets of a mode such as "bucket:batch=8,4", as keyword arguments. Other modes have one empty
    bucket."""
    if not (mode or "").startswith("bucket:"):
        return [{}]
    axis, values = mode[7:].split("=")
    return [{axis: int(v)} for v in values.split(",")]


def eager(name, device, steps, mode):
    import torch

    if mode == "fresh":
        rows = {}
        for k in FRESH_AT:
            target = Target(name, device)
            target.set_inputs(k)
            seed(5000 + k)
            rows[k] = target.seen(target.step(), k)
        return {"rows": rows}
    target = Target(name, device, **buckets(mode)[-1])
    for _ in range(WARMUP):
        seed(4000)
        target.step()
    rows = {}
    for k in range(steps):
        shift[0] = 7.0 * k + (86_400.0 if k >= steps // 2 else 0.0)
        target.set_inputs(k)
        seed(5000 + k)
        out = target.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        rows[k] = target.seen(out, k)
    return {"rows": rows}


def replay(name, device, steps, mode):
    import torch

    *first, last = buckets(mode)
    for axes in first:
        earlier = Target(name, device, again=True, **axes)
        for _ in range(WARMUP):
            earlier.step()
    target = Target(name, device, again=True, **last)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARMUP):
            seed(4000)
            target.step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            out = target.step()
    except Exception as error:
        first = error
        while first.__context__ is not None:
            first = first.__context__
        return {"capture_error": f"{type(first).__name__}: {first}"[:300]}
    torch.cuda.synchronize()
    rows = {}
    for k in range(steps):
        shift[0] = 7.0 * k + (86_400.0 if k >= steps // 2 else 0.0)
        target.set_inputs(k)
        seed(5000 + k)
        graph.replay()
        torch.cuda.synchronize()
        if mode != "fresh" or k in FRESH_AT:
            rows[k] = target.seen(out, k)
        if mode == "fresh" and k > max(FRESH_AT):
            break
    return {"rows": rows}


def child(kind, name, device_name, steps, mode, path):
    import torch

    torch.set_num_threads(1)
    shift_clocks()
    device = torch.device(device_name)
    if device.type == "cuda":
        torch.cuda.set_device(0)
    try:
        result = {"eager": eager, "replay": replay}[kind](name, device, steps, mode)
    except BaseException as error:
        where = [f for f in traceback.extract_tb(error.__traceback__) if str(HERE) in f.filename and "oracle.py" not in f.filename]
        at = f" at {Path(where[-1].filename).name}:{where[-1].lineno}" if where else ""
        result = {"error": f"{type(error).__name__}: {error}"[:300] + at}
    torch.save(result, path + ".part")
    os.replace(path + ".part", path)


def compare(a, b):
    """Return None if the rows agree, otherwise the first step with a difference, and this difference."""
    import torch

    for k in sorted(set(a) & set(b)):
        if len(a[k]) != len(b[k]):
            return k, f"{len(a[k])} tensors eagerly, {len(b[k])} replayed"
        for i, (x, y) in enumerate(zip(a[k], b[k])):
            if x.shape != y.shape:
                return k, f"tensor {i}: shape {tuple(x.shape)} eagerly, {tuple(y.shape)} replayed"
            scale = x[torch.isfinite(x)].abs().max().item() if torch.isfinite(x).any() else 1.0
            if not torch.allclose(x, y, rtol=2e-3, atol=2e-3 * scale + 1e-6, equal_nan=True):
                return k, f"tensor {i}: differs by {(x - y).abs().max().item():.3g} of {scale:.3g}"
    return None


def moved(rows):
    ks = sorted(rows)
    return any(len(rows[k]) != len(rows[ks[0]]) or any(x.shape != y.shape or not x.equal(y) for x, y in zip(rows[k], rows[ks[0]])) for k in ks[1:])


def judge(results):
    e, r = results["eager"], results.get("replay")
    if "error" in e:
        return {"captures": False, "agrees": False, "eager": False, "detail": "eager: " + e["error"]}
    if r is None:
        return {"captures": None, "agrees": None, "eager": True, "detail": "outputs move" if moved(e["rows"]) else "OUTPUTS NEVER MOVE"}
    if "capture_error" in r:
        return {"captures": False, "agrees": False, "eager": True, "detail": r["capture_error"]}
    if "error" in r:
        return {"captures": False, "agrees": False, "eager": True, "detail": "replay: " + r["error"]}
    difference = compare(e["rows"], r["rows"])
    if difference is None:
        return {"captures": True, "agrees": True, "eager": True, "detail": f"equal for {len(r['rows'])} steps" + ("" if moved(e["rows"]) else ", OUTPUTS NEVER MOVE")}
    return {"captures": True, "agrees": False, "eager": True, "detail": f"step {difference[0]}: {difference[1]}"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("labels", help="labels.json, beside the files of its targets")
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("-o", "--out", default="oracle.json")
    opts = parser.parse_args()
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    labels = json.loads(Path(opts.labels).read_text())
    names = [n for n in labels if opts.only in n]
    kinds = ["eager"] if opts.device == "cpu" else ["eager", "replay"]
    todo = [(n, kind) for n in names for kind in kinds]
    folder = tempfile.mkdtemp()
    running, results, answers = {}, {}, {}
    begin = time.monotonic()
    while todo or running:
        while todo and len(running) < opts.jobs:
            name, kind = todo.pop(0)
            path = os.path.join(folder, f"{len(todo)}.pt")
            pid = os.fork()
            if pid == 0:
                os.setsid()
                try:
                    child(kind, name, opts.device, opts.steps, labels[name].get("oracle"), path)
                finally:
                    os._exit(0)
            running[pid] = (name, kind, path, time.monotonic())
        for pid, (name, kind, path, since) in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            late = time.monotonic() - since > opts.timeout
            if not done and late:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if not done and not late:
                continue
            del running[pid]
            if os.path.exists(path):
                result = torch.load(path, weights_only=False)
                os.unlink(path)
            else:
                result = {"error": "timeout" if late else f"child died with status {status}"}
            results.setdefault(name, {})[kind] = result
            if len(results[name]) == len(kinds):
                answers[name] = judge(results.pop(name))
        time.sleep(0.01)
    Path(opts.out).write_text(json.dumps(dict(sorted(answers.items())), indent=1) + "\n")
    wrong = 0
    for name in names:
        got, want = answers[name], labels[name]
        if opts.device == "cpu":
            flag = "" if got["eager"] and "NEVER" not in got["detail"] else "  <--"
        else:
            flag = "" if got["agrees"] == want["sound"] else "  (race: values prove nothing)" if want.get("oracle") == "reasoned" else "  <-- LABEL DIFFERS"
            wrong += "LABEL" in flag
        if flag or opts.only:
            print(f"{name} [{'sound' if want['sound'] else want['kind']}] {got['detail']}{flag}")
    print(f"{len(names)} targets, {wrong} labels differ, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
