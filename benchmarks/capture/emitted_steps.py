"""Compare emitted code with eager steps, without graphsafe: an independent check of the code from plan_steps.py.

    python benchmarks/capture/emitted_steps.py --plans FOLDER --device cuda:0 [--processes 8] [NAME...]

FOLDER is the output folder of plan_steps.py. Plans with code are run in processes in which graphsafe cannot be
imported. Each process builds the target twice: one build runs eager steps, the other one runs its graphs. Each step has
new inputs. Results: FOLDER/emitted.jsonl, with a line for each target as soon as it is done.
"""

import argparse
import importlib.util
import inspect
import json
import multiprocessing
import statistics
import sys
import time
import traceback
from pathlib import Path

STEPS = 5
REPEATS = 15
WARMUP = 2


class Refused:
    """A finder in `sys.meta_path` that refuses to import graphsafe."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "graphsafe":
            raise ImportError("graphsafe is not installed here")
        return None


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def built(factory, device):
    import torch

    torch.manual_seed(0)
    answer = factory(device)
    if isinstance(answer, torch.nn.Module):
        return answer, answer.example_inputs, {}
    fn, args, *rest = answer
    return fn, args, rest[0] if rest else {}


def tensors(value):
    import torch
    from torch.utils._pytree import tree_flatten

    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def renew(args, kwargs, k):
    """Write new values of the same kind into the inputs. Both builds get equal values."""
    import torch

    drawn = torch.Generator().manual_seed(k)
    for tensor in tensors((args, kwargs)):
        with torch.no_grad():
            if tensor.is_floating_point():
                spread = float(tensor.std()) if tensor.numel() > 1 else abs(float(tensor)) or 1.0
                tensor.copy_(torch.randn(tensor.shape, generator=drawn) * spread + float(tensor.mean()))
            elif tensor.dtype == torch.long and int(tensor.max()) > 1:
                tensor.copy_(torch.randint(0, int(tensor.max()) + 1, tensor.shape, generator=drawn))


def apart(ours, theirs):
    """Return the largest difference as a share of the largest value. Return None if the structures differ."""
    import torch

    worst = 0.0
    one, two = tensors(ours), tensors(theirs)
    if len(one) != len(two):
        return None
    for left, right in zip(one, two, strict=True):
        if left.shape != right.shape or left.dtype != right.dtype:
            return None
        if torch.equal(left, right):
            continue
        left, right = left.double(), right.double()
        if not torch.equal(left.isfinite(), right.isfinite()):
            return None
        left, right = left.nan_to_num(), right.nan_to_num()
        worst = max(worst, float((left - right).abs().max() / right.abs().max().clamp(min=1e-30)))
    return worst


def milliseconds(call):
    import torch

    taken = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        call()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def run(job):
    target, code, name = job
    changed = []
    try:
        if not any(isinstance(finder, Refused) for finder in sys.meta_path):
            sys.meta_path.insert(0, Refused())
        import torch

        device = torch.device(name)
        torch.cuda.set_device(device)
        file, _, factory = target.rpartition(":")
        sys.path.insert(0, str(Path(file).parent))
        module = load(Path(file))
        eager = built(getattr(module, factory), device)
        planned = built(getattr(module, factory), device)
        plan = load(Path(code))
        replace = plan._replace

        def noted(original, planned_function):
            function = inspect.unwrap(getattr(original, "__func__", original))
            changed.append((function, function.__code__))
            replace(original, planned_function)

        plan._replace = noted
        for k in range(WARMUP + 1):
            torch.manual_seed(100 + k)
            eager[0](*eager[1], **eager[2])
        torch.manual_seed(100)
        step = plan.capture(planned[0], planned[1], planned[2], warmup=WARMUP)
        worst = []
        for k in range(1, STEPS + 1):
            renew(*eager[1:], k)
            torch.manual_seed(k)
            theirs = eager[0](*eager[1], **eager[2])
            theirs = [tensor.clone() for tensor in tensors(theirs)]
            renew(*planned[1:], k)
            torch.manual_seed(k)
            ours = step(*planned[1], **planned[2])
            worst.append(apart(tensors(ours), theirs))
        times = {
            "eager_ms": milliseconds(lambda: eager[0](*eager[1], **eager[2])),
            "planned_ms": milliseconds(step.replay),
        }
        return {"target": target, "apart": worst, **times}
    except BaseException:
        return {"target": target, "failed": traceback.format_exc()[-1500:]}
    finally:
        for function, code in reversed(changed):  # for the next plan in this process
            function.__code__ = code


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--plans", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which nothing more is begun")
    arguments = parser.parse_args()
    rows = [json.loads(line) for file in sorted(arguments.plans.glob("plans*.jsonl")) for line in file.open()]
    jobs = []
    for row in rows:
        name = row["target"].rpartition(":")[2]
        code = arguments.plans.absolute() / f"{name}_plan.py"
        if row["verified"] and code.exists() and (not arguments.names or name in arguments.names):
            jobs.append((row["target"], str(code), arguments.device))
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        with (arguments.plans / "emitted.jsonl").open("w") as lines:
            right = wrong = failed = 0
            for answer in pool.imap_unordered(run, jobs, chunksize=1):
                lines.write(json.dumps(answer) + "\n")
                lines.flush()
                bad = None in answer.get("apart", ()) or max(answer.get("apart") or [0]) > 0.02
                failed += "failed" in answer
                wrong += bad
                right += not bad and "failed" not in answer
                if time.monotonic() - begun > arguments.budget:
                    break
        pool.terminate()
    print(f"{len(jobs)} emitted plans: {right} agree with eager steps, {wrong} do not, {failed} could not be run")


if __name__ == "__main__":
    main()
