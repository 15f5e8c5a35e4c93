"""What really happens to a step that is captured: ground truth that shares no code with graphsafe.

Each of these is done in a process of its own, from the same seeds: three warm-up steps, then steps on changed inputs,
as replays of a CUDA graph, eagerly, and eagerly while `is_current_stream_capturing` answers yes, twice. Replays have to
equal the latter, and the latter plain eager steps within rounding. A pure step, one whose output follows from its
inputs alone, is also compared with the first step of a fresh build. steps.py says how the steps are made.

    python tests/gpu/oracle.py FILE.py:FACTORY [pure] [root=FOLDER]    # as JSON; root: where lines are to blame
    python tests/gpu/oracle.py FILE.py:FACTORY,FACTORY,FACTORY         # a line of JSON each

Several factories of a file share a process for each of these series until one fails in it: cheaper, and right only for
targets that leave nothing behind in Python modules.
"""

import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from steps import STEPS, play, tensors

ROUNDING = 10
"Times what moving inputs and parameters by one unit in the last place does to the outputs."


def series(module, factories, role, roots, folder):
    """`play` for each factory in forks of this process, which has imported the target and has not touched the GPU."""
    if child := os.fork():
        return child
    for number, factory in enumerate(factories):
        if Path(folder, f"{factory}-{role}").exists():
            continue
        if player := os.fork():
            os.waitpid(player, 0)
            if not Path(folder, f"{factory}-{role}").exists():
                torch.save({"at": "crash", "error": "the process died", "gpu": None}, f"{folder}/{factory}-{role}")
            continue
        for name in factories[number:]:
            told = {}
            try:
                play(module, name, role, told)
            except BaseException as error:
                while (earlier := error.__cause__ or error.__context__) is not None:
                    error = earlier
                frames = [
                    frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(roots)
                ]
                told["line"] = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
                told["error"] = f"{type(error).__name__}: {error}"[:300]
            torch.save(told, f"{folder}/{name}-{role}")
            if "error" in told:
                break
        os._exit(0)
    os._exit(0)


def played(module, factories, roots, *roles):
    """What came of these roles, all at once: by factory, in the roles' order."""
    with tempfile.TemporaryDirectory() as folder:
        for child in [series(module, factories, role, roots, folder) for role in roles]:
            os.waitpid(child, 0)
        return {name: [torch.load(f"{folder}/{name}-{role}") for role in roles] for name in factories}


def apart(one, two):
    """The largest difference of two series of steps, as a share of the largest number in its tensor."""
    worst = 0.0
    if [tensor.shape for tensor in tensors(one)] != [tensor.shape for tensor in tensors(two)]:
        return float("inf")
    for a, b in zip(tensors(one), tensors(two), strict=True):
        a, b = (t.to_dense().to(torch.complex128).nan_to_num(3e30, 2e30, -2e30) for t in (a, b))
        if not torch.equal(a, b):
            scale = torch.where(b.abs() < 1e30, b.abs(), 0).max().clamp(min=1e-30)
            worst = max(worst, float((a - b).abs().max() / scale))
    return worst


def judge(target, pure=False, root=""):
    """The labels and what they rest on. Without a GPU only eager steps are made, and nothing is ready."""
    path, _, names = target.rpartition(":")
    # A library that asks on import whether there is a GPU would else leave forks of this process without one.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    folder = os.path.abspath(Path(path).parent)
    sys.path.insert(0, folder)
    module, roots = importlib.import_module(Path(path).stem), (folder, *filter(None, root.split(os.pathsep)))
    gc.freeze()  # Each step looks for garbage, which is not among what was imported.
    first = played(module, names.split(","), roots, "replay", "eager")
    sound = [name for name in first if "error" not in first[name][1] and not failed(*first[name])]
    more = played(module, sound, roots, "again", "path", "nudged", *(["fresh"] if pure else []))
    return [{"target": f"{path}:{name}"} | labelled(*first[name], *more.get(name, ())) for name in first]


def failed(replay, eager):
    return "error" in replay and eager["gpu"]


def labelled(replay, eager, again=None, *others):
    """Of one target, from what came of its roles."""
    told = {"eager": eager.get("error"), "replay": replay.get("error"), "line": replay.get("line")}
    if "error" in eager:
        labels = {"build": None, "generator": "not-ready"}
        return told | {"label": labels.get(eager["at"], "inconclusive"), "why": f"{eager['at']} fails eagerly"}
    if failed(replay, eager):
        label = None if replay["at"] == "build" else "not-ready"  # of memory, where others run too
        return told | {"label": label, "why": f"{replay['at']} fails"}
    path, nudged, fresh = (result.get("steps", []) if "error" not in result else None for result in [*others, {}][:3])
    path = path or eager["steps"]
    told["differences"] = between = {
        "floor": apart(path, again["steps"]) if "error" not in again else 0.0,
        "replay": apart(replay["steps"], path) if "error" not in replay else 0.0,
        "guard": apart(path, eager["steps"]),
        "rounding": apart(nudged, eager["steps"]) if nudged else 0.0,
        "fresh": apart(fresh, path[STEPS - 1 : STEPS]) if fresh else 0.0,
    }
    noise = max(ROUNDING * between["rounding"], 10 * between["floor"], 2e-6)
    still = not eager["gpu"] or apart(replay["steps"][-2], replay["steps"][-1]) == 0 < 1e-5 < apart(path[-2], path[-1])
    outputs = [step[: eager["outputs"] or len(step)] for step in eager["steps"]]
    for label, why, holds in (
        (None, "there is no GPU", not eager["gpu"]),
        ("not-ready", "the graph is empty", replay.get("empty")),
        ("not-ready", "replays stand still where eager steps move", still),
        ("not-ready", "replays differ", between["replay"] > 10 * between["floor"]),
        ("not-ready", "capture takes another path", between["guard"] > noise),
        ("not-ready", "a fresh build differs", between["fresh"] > noise),
        ("inconclusive", "no output follows the inputs", not apart(outputs[0], outputs[1])),
        ("ready", None, True),
    ):
        if holds:
            return told | {"label": label, "why": why}


if __name__ == "__main__":
    words = dict([*word.split("="), True][:2] for word in sys.argv[2:])
    for answer in judge(sys.argv[1], **words):
        print("\n" + json.dumps(answer), flush=True)
