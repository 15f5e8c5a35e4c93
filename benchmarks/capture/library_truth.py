"""Find the lines of libraries that wait for the device in real steps, and the lines that only run.

The steps are the targets in library_targets/. Each target runs in its own process: two warm-up steps, then one step
that is watched as in transformers_truth.py. graphsafe is not used. If the library of a step is missing or has another
interface, the step is left out and its error is recorded.

    python benchmarks/capture/library_truth.py nine OUT.json        # on a machine with a GPU; a minute with 16 cores
    python benchmarks/capture/library_truth.py untouched OUT.json   # steps of eleven libraries more
    python benchmarks/capture/library_truth.py third OUT.json       # and of two dozen smaller ones
    python benchmarks/capture/library_truth.py fourth OUT.json      # and of 22 others
    python benchmarks/capture/library_truth.py sixth OUT.json       # and of 30 others
    python benchmarks/capture/library_truth.py seventh OUT.json     # and of 27 others
    python benchmarks/capture/library_truth.py eighth OUT.json      # and of 28 others
    python benchmarks/capture/library_truth.py ninth OUT.json       # and of 28 more
    python benchmarks/capture/library_truth.py tenth OUT.json       # and of 24 more
    python benchmarks/capture/library_truth.py eleventh OUT.json    # and of 38 small ones
    python benchmarks/capture/library_truth.py ways OUT.json        # options that the steps of the nine do not give
    python benchmarks/capture/library_truth.py --step FILE:FACTORY  # one, as JSON; without a GPU: lines that ran
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib.metadata
import importlib.util
import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from library_steps import NINE, PARTS, Part, cases
from transformers_truth import Blame, by_file, observed, told_by

TIMEOUT = 60.0
"The largest number of seconds for one target."
BUDGET = 140.0
"The largest number of seconds for all targets. Targets that are not done by then are left out."
WORKERS = 20


def packages(part: Part) -> list[str]:
    return [*part.libraries, "transformers"]


def folders(part: Part) -> list[Path]:
    specs = [importlib.util.find_spec(name) for name in packages(part)]
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


def one_step(target: str) -> dict[str, Any]:
    import torch

    file, _, factory = target.rpartition(":")
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.path.insert(0, str(Path(file).parent))

    def make() -> Callable[[], Any]:
        spec = importlib.util.spec_from_file_location("target", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        build = getattr(module, factory)
        made = build(device) if inspect.signature(build).parameters else build()
        function, arguments, *more = made if isinstance(made, tuple) else (made.fn, made.args, made.kwargs)
        keywords = more[0] if more else {}
        return lambda: function(*arguments, **keywords)

    folder = Path(file).resolve().parent
    part = next((part for part in PARTS.values() if part.folder == folder), NINE)
    return observed(make, Blame(folders(part)), device)


def in_child(target: str, begun: float) -> dict[str, Any]:
    left = begun + BUDGET - time.monotonic()
    if left <= 0:
        return {"status": "not started in time"}
    result, failure = told_by([__file__, "--step", target], min(TIMEOUT, left))
    return {"status": failure} if result is None else result


def combined(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    ran: dict[str, set[int]] = {}
    waits: dict[str, dict[int, dict[str, Any]]] = {}
    for name, result in sorted(results.items()):
        captured = {(path, line) for path, line in result.get("waits_in_captures", ())}
        for path, line in result.get("ran", ()):
            ran.setdefault(path, set()).add(line)
        for path, line, what in result.get("waits", ()):
            ran.setdefault(path, set()).add(line)
            entry = waits.setdefault(path, {}).setdefault(line, {"what": what, "steps": [], "in_captures": False})
            entry["steps"].append(name)
            entry["in_captures"] |= (path, line) in captured
    return {"models": {name: {"step": result["status"]} for name, result in results.items()}, **by_file(ran, waits)}


def versions(part: Part) -> dict[str, str]:
    import torch

    found = {"torch": torch.__version__, "python": sys.version.split()[0]}
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    distributions = importlib.metadata.packages_distributions()
    for name in packages(part):
        found[name] = importlib.metadata.version(distributions[name][0]) if name in distributions else "missing"
    return found


def main() -> int:
    if sys.argv[1] == "--step":
        print("\nRESULT " + json.dumps(one_step(sys.argv[2])))
        return 0
    begun = time.monotonic()
    part = PARTS[sys.argv[1]]
    targets = {case.name: case.target for case in cases(part)}
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        results = dict(zip(targets, pool.map(functools.partial(in_child, begun=begun), targets.values()), strict=True))
    truth = {"versions": versions(part), **combined(results)}
    Path(sys.argv[2]).write_text(json.dumps(truth, separators=(",", ":")) + "\n", encoding="utf-8")
    statuses = [result["status"] for result in results.values()]
    print(
        f"{statuses.count('ran')} of {len(statuses)} steps ran; {sum(map(len, truth['waits'].values()))} lines waited"
    )
    print(f"in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
