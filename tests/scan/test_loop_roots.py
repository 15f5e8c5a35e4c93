"""The loops around replays, models and optimizers: what runs in every step there, and what runs once or beside."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

ENGINE = """
    import torch

    class Engine:
        def __init__(self, model):
            self.model = model
            self.ids = torch.zeros(8, dtype=torch.long, device="cuda")
            self.graphs = {}

        def make(self, stream):
            self.model(self.ids)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                self.out = self.model(self.ids)
            self.graphs[8] = graph

        def advance(self, ids: torch.Tensor, size: int):
            longest = ids.max().item()  # replaying method
            self.ids.copy_(ids)
            self.graphs[size].replay()
            return self.out.clone()

        def turn(self, requests):
            ids = torch.tensor([len(requests)], device=self.ids.device)  # its caller
            return self.advance(ids, 8)

        def serve(self, queue):
            started = self.ids.sum().item()
            while True:
                out = self.turn(queue.get())
                queue.done(out.tolist())  # the loop
            self.ids.tolist()

        def report(self):
            return self.ids.tolist()
"""
TRAINING = """
    import torch
    from torch import nn

    def fit(model: nn.Module, optimizer, loader):
        before = torch.ones(3, device="cuda").sum().item()
        for epoch in range(100):
            for step, (x, y) in enumerate(loader):
                x = x.cuda()
                loss = (model(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                seen = loss.item()  # every step
                if step % 100 == 0:
                    print(loss.item())
            print(epoch, loss.item())

    def evaluate(model: nn.Module, loader):
        for x in loader:
            model(x.cuda()).sum().item()

    class Trainer:
        def _train_batch(self, batch: torch.Tensor):
            loss = self.net(batch.cuda()).mean()
            loss.backward()
            self.optimizer.step()
            return {"loss": loss.item()}  # a batch

    if __name__ == "__main__":
        net = nn.Linear(3, 3).cuda()
        while True:
            out = net(torch.ones(3, device="cuda"))
            print(out.sum().item())  # the module's own loop
"""
WARM_UP = """
    import torch

    def main(model, optimizer, batches, stream):
        x = torch.zeros(8, device="cuda")
        for _ in range(11):
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            loss.item()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = model(x)
        for batch in batches:
            x.copy_(batch)
            graph.replay()
            print(out.sum().item())  # replays

    def benchmark(graph, out):
        for _ in range(100):
            graph.replay()
            out.sum().item()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def warned(folder: Path, source: str) -> set[str]:
    """The marks on the lines of warnings about waits and copies; each is host code around a graph."""
    text = textwrap.dedent(source)
    (folder / "engine.py").write_text(text, encoding="utf-8")
    found = [f for f in scan_paths([folder], load_config(folder)).findings if f.code in ("GS101", "GS301", "GS103")]
    assert {(f.level, f.region) for f in found} <= {("warning", "step")}
    return {text.splitlines()[f.location.line - 1].partition("  # ")[2] for f in found}


def test_the_method_that_replays_and_the_loops_that_call_it_are_steps(folder: Path) -> None:
    assert warned(folder, ENGINE) == {"replaying method", "its caller", "the loop"}


def test_a_training_loop_is_a_step_but_for_what_it_does_now_and_then(folder: Path) -> None:
    assert warned(folder, TRAINING) == {"every step", "a batch", "the module's own loop"}


def test_what_a_loop_calls_seldom_is_no_step(folder: Path) -> None:
    source = """
        import torch
        from torch import nn

        class CheckpointManager:
            def keep(self, model):
                torch.ones(1, device="cuda").item()

        def launch_eval(model):
            torch.ones(1, device="cuda").item()

        def noted(loss):
            return loss.item()  # a helper

        def train(model: nn.Module, optimizer, batches, state, args):
            manager = CheckpointManager()
            for x in batches:
                loss = (model(x.cuda()) - 1).mean()
                loss.backward()
                optimizer.step()
                noted(loss)
                if every_n_steps(state, 10):
                    print(loss.item())
                if args.should_log and state.is_main:
                    print(loss.item())
                if state.is_main and divisible_by(state.step, args.log_every):
                    print(loss.item())
                if step_check(state.step, args.steps_per_eval_batch):
                    print(loss.item())
                if args.perform_logging:
                    print(loss.item())
                if args.is_main:
                    print(loss.item())  # each step
                if state.step in [at - 1 for at in args.eval_steps]:
                    print(loss.item())
                if state.step in args.guided_steps:
                    print(loss.item())  # many steps
                if state.step - state.last >= args.save_interval:
                    noted(loss)
                    print(loss.item())
                manager.keep(model)
                launch_eval(model)
    """
    assert warned(folder, source) == {"a helper", "each step", "many steps"}


@pytest.mark.parametrize(
    ("test", "found"),
    [("not state.should_log(x)", set()), ("not state.is_main", {"after"}), ("not state.step % 10", {"after"})],
)
def test_the_end_of_a_step_that_most_steps_leave_before(folder: Path, test: str, found: set[str]) -> None:
    source = f"""
        import torch
        from torch import nn

        def advance(model, optimizer, state, x):
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            if {test}:
                return
            print(loss.item())  # after

        def train(model: nn.Module, optimizer, batches, state):
            for x in batches:
                advance(model, optimizer, state, x.cuda())
    """
    assert warned(folder, source) == found


def test_what_warms_up_or_measures_is_no_step(folder: Path) -> None:
    assert warned(folder, WARM_UP) == {"replays"}


def test_a_hot_path_may_stand_around_the_graphs_and_leaves_other_roots(folder: Path) -> None:
    source = """
        import torch
        from torch import nn

        class Engine:
            def plan(self, x: torch.Tensor):
                return x.max().item()

            def other(self, x: torch.Tensor):
                return x.min().item()

        class Model(nn.Module):
            def forward(self, x):
                return x * x.sum().item()
    """
    (folder / "graphsafe.toml").write_text('hot-paths = [{ path = "engine.py:Engine.plan", region = "step" }]\n')
    (folder / "engine.py").write_text(textwrap.dedent(source), encoding="utf-8")
    found = scan_paths([folder], load_config(folder)).findings
    assert {(f.location.function, f.level, f.region) for f in found} == {
        ("Engine.plan", "warning", "step"),
        ("Model.forward", "error", "captured"),
    }


RUNNER = """
    import torch

    class Graphed:
        def __init__(self, net, rows, stream):
            self.x = torch.zeros(rows, 8, device="cuda")
            net(self.x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = net(self.x)

        def __call__(self, x):
            self.x.copy_(x, non_blocking=True)
            self.graph.replay()
            return self.y.clone()

    class Pool:
        def __init__(self, net, sizes, stream):
            self.graphs, self.outputs = {}, {}
            self.x = torch.zeros(8, 8, device="cuda")
            for n in sizes:
                self.record(net, n, stream)

        def record(self, net, n, stream):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                self.outputs[n] = net(self.x[:n])
            self.graphs[n] = graph

        def advance_batch(self, n):
            self.graphs[n].replay()
            return self.outputs[n]
"""
AROUND = """
    import torch
    from runner import Graphed, Pool

    class Server:
        def __init__(self, net, stream):
            self.pool = Pool(net, (1, 2), stream)
            self.denoise = Graphed(net, 4, stream)

        def listen(self, inbox):
            while batch := inbox.get():
                out = self.pool.advance_batch(len(batch))
                inbox.answer(out.tolist())  # the pool's loop
            return out.tolist()

        def one(self, x: torch.Tensor):
            out = self.denoise(x)
            return out, out.max().item()  # a method that calls an object

        def sized(self, x):
            return self.pool.x.max().item()

    def stream_of(net, batches, stream):
        step = Graphed(net, 4, stream)
        for batch in batches:
            print(step(batch).sum().item())  # an object of its own
        print(step.y.sum().item())
        for n in (1, 2, 4):
            print(step(batches[n]).sum().item())

    def pieces(graphs, inbox, out: torch.Tensor):
        while inbox.take():
            for graph in graphs:
                graph.replay()
            print(out.sum().item())  # a step in pieces
"""


def test_what_takes_the_step_may_be_an_object_or_stand_in_another_file(folder: Path) -> None:
    (folder / "runner.py").write_text(textwrap.dedent(RUNNER), encoding="utf-8")
    assert warned(folder, AROUND) == {
        "the pool's loop",
        "a method that calls an object",
        "an object of its own",
        "a step in pieces",
    }


def test_what_replays_is_a_step_though_it_evaluates(folder: Path) -> None:
    source = """
        import torch

        class Evaluator:
            def __init__(self, net, stream):
                self.x = torch.zeros(8, 8, device="cuda")
                net(self.x)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.y = net(self.x)

            def evaluate(self, boards):
                self.x.fill_(torch.tensor([len(boards)], device=self.x.device))  # replays
                self.graph.replay()
                return self.y.clone()

            def validate(self, model, batches):
                for batch in batches:
                    model(batch.cuda()).sum().item()
    """
    assert warned(folder, source) == {"replays"}


def test_who_calls_an_epoch_in_a_loop_takes_no_step(folder: Path) -> None:
    source = """
        import torch

        class Trainer:
            def __init__(self, net):
                self.net = net
                self.total = torch.zeros((), device="cuda")

            def epoch(self, batches):
                for batch in batches:
                    self.net(batch).sum().backward()
                    self.total.item()  # a batch

            def fit(self, loader, epochs):
                for _ in range(epochs):
                    self.epoch(loader)
                    print(self.total.item())
    """
    assert warned(folder, source) == {"a batch"}


def test_an_epoch_that_is_evaluated_with_the_model_is_no_step(folder: Path) -> None:
    source = """
        import torch
        import tqdm

        def main(model, optimizer, data, epochs):
            total = torch.zeros((), device="cuda")
            for epoch in range(epochs):
                for batch in tqdm.tqdm(data):
                    def closure():
                        loss = model(batch).sum()
                        loss.backward()
                        return loss

                    optimizer.step(closure)
                    total.item()  # a batch
                model(data[0])
                total.item()

        def learn(policy, optimizer, rounds):
            total = torch.zeros((), device="cuda")
            for iteration in range(rounds):
                for part in policy(total):
                    policy(part).sum().backward()
                    optimizer.step()
                total.item()  # an iteration
    """
    assert warned(folder, source) == {"a batch", "an iteration"}


def test_calls_in_the_file_tell_which_object_a_loop_calls(folder: Path) -> None:
    source = (
        RUNNER
        + """
    class Descent:
        def __init__(self, gradient, other, rounds):
            self.gradient, self.other = gradient, other
            self.rounds = rounds

        def minimise(self, x: torch.Tensor):
            while self.rounds:
                change = self.gradient(x)
                if change.abs().max().item() < 1e-3:  # an attribute
                    return x
            while self.rounds:
                x.max().item()
                self.other(x)

    def walk(step, x: torch.Tensor):
        while x.numel():
            step(x)
            x.sum().item()  # a parameter

    def fit(net, x, stream):
        gradient = Graphed(net, 8, stream)
        walk(gradient, x)
        return Descent(gradient, rounds=8, other=net).minimise(x)
    """
    )
    assert warned(folder, source) == {"an attribute", "a parameter"}


def test_a_script_that_makes_the_objects_of_a_loop_tells_what_they_are(folder: Path) -> None:
    (folder / "runner.py").write_text(textwrap.dedent(RUNNER), encoding="utf-8")
    source = """
        import torch
        from runner import Graphed

        class Rows:
            def __init__(self, table, size):
                self.table, self.size = table.pin_memory(), size

            def __getitem__(self, k):
                return self.table[k * self.size : (k + 1) * self.size]

        class Sweep:
            def __init__(self, step, meter):
                self.step, self.meter = step, meter

            def over(self, rows, count):
                for k in range(count):
                    out = self.step(torch.tensor([k], device="cuda"))  # an upload
                    self.meter.see(out)

        class Meter:
            def see(self, out):
                self.last = out.amax().item()  # an object of the script

        def main(net, stream, rows):
            sweep = Sweep(Graphed(net, 4, stream), Meter())
            sweep.over(Rows(torch.zeros(64, 8), 4), 16)
            print(sweep.meter.last)
    """
    assert warned(folder, source) == {"an upload", "an object of the script"}


def test_what_makes_the_graphs_itself_is_no_step(folder: Path) -> None:
    (folder / "runner.py").write_text(textwrap.dedent(RUNNER), encoding="utf-8")
    source = """
        import torch
        from runner import Graphed

        class Match:
            def __init__(self, net, device, stream):
                self.scale = torch.ones(3, device="cuda").sum().item()
                self.x = torch.zeros(8, 8, device="cuda")
                net(self.x)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.y = net(self.x)

            def submit(self):
                self.graph.replay()

            def result(self):
                return self.y.tolist()

        def match_once(net, stream, device=torch.device("cuda")):
            match = Match(net, device, stream)
            match.submit()
            return match.result()

        def once(net, x: torch.Tensor, stream):
            step = Graphed(net, 4, stream)
            return step(x).sum().item()
    """
    assert warned(folder, source) == set()


SAVES = """
import torch


def _save_state(net: torch.nn.Linear, path):
    torch.save(net.weight.cpu(), path)  # saves


def _merged_state_dict(net: torch.nn.Linear):
    return {"weight": net.weight.cpu()}  # saves


def _report(net: torch.nn.Linear):
    return net.weight.cpu()  # reports


def train(net: torch.nn.Linear, opt, batches):
    for x in batches:
        net(x).sum().backward()
        opt.step()
        _save_state(net, "last.pt")
        _merged_state_dict(net)
        _report(net)
"""


def test_what_saves_weights_is_no_step(folder: Path) -> None:
    assert warned(folder, SAVES) == {"reports"}


ON_DEMAND = """
    import torch

    class Streamed:
        def __init__(self, model):
            self.model, self.graph, self.spare = model, None, torch.zeros(1, device="cuda")

        def advance(self, x: torch.Tensor):
            scale = x.max().item()  # each call
            if {test}:
                torch.cuda.synchronize()
                self.x = x.clone()
                self.model(self.x)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=torch.cuda.Stream("cuda")):
                    self.y = self.model(self.x)
            self.x.copy_(x)
            {replay}
            return self.y * scale
"""


@pytest.mark.parametrize(
    ("test", "replay", "found"),
    [
        ("self.graph is None", "self.graph.replay()", True),
        # Nothing says how often code runs that captures each time.
        ("True", "pass", False),
    ],
)
def test_a_method_that_captures_on_demand_is_a_step(tmp_path: Path, test: str, replay: str, found: bool) -> None:
    text = textwrap.dedent(ON_DEMAND.format(test=test, replay=replay))
    (tmp_path / "streamed.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    told = [
        lines[one.location.line - 1]
        for one in scan_paths([tmp_path], load_config(tmp_path)).findings
        if one.level != "note"
    ]
    assert any("# each call" in line for line in told) == found
    assert not any("synchronize" in line for line in told)


def test_a_loop_over_the_data_of_a_validation_is_no_step(folder: Path) -> None:
    source = """
import torch
from torch import nn

def fit(model: nn.Module, loader, val_loader, optimizer, epochs):
    for epoch in range(epochs):
        for x, y in loader:
            x = x.cuda()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            seen = loss.item()  # every step
        for x, y in val_loader:
            x = x.cuda()
            held = (model(x) - y).pow(2).mean().item()
"""
    assert warned(folder, source) == {"every step"}


@pytest.mark.parametrize(
    ("head", "is_step"),
    [
        ("model.eval()\n        for x, y in held_dl:", False),
        ("with torch.no_grad():\n          for x, y in held_dl:", False),
        ("for x, y in held_dl:", True),
        ("model.eval()\n        model.train()\n        for x, y in held_dl:", True),
        ("with torch.no_grad():\n          for turn in range(turns):", True),
    ],
)
def test_a_loop_beside_the_training_in_evaluation_mode_is_no_step(folder: Path, head: str, is_step: bool) -> None:
    source = f"""
import torch
from torch import nn

def fit(model: nn.Module, train_dl, held_dl, optimizer, epochs, turns):
    for epoch in range(epochs):
        model.train()
        for x, y in train_dl:
            loss = (model(x.cuda()) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
            seen = loss.item()  # every step
        {head}
            kept = model(torch.ones(3, device="cuda"))
            held = torch.ones(3, device="cuda").sum().item()  # beside
"""
    assert warned(folder, source) == {"every step"} | ({"beside"} if is_step else set())


@pytest.mark.parametrize(("move", "marks"), [("", set()), (".cuda()", {"every step"})])
def test_a_layer_of_host_tensors_has_its_result_on_the_host(folder: Path, move: str, marks: set[str]) -> None:
    source = f"""
import torch

class Actor:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def train(self, row):
        x = torch.tensor([row]){move}
        loss = self.net(x).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()  # every step
"""
    found = warned(folder, source) - {""}
    assert found == marks


def test_a_script_whose_epochs_end_with_a_test_has_no_step_around_it(folder: Path) -> None:
    source = """
import torch
from torch import nn

def train(model: nn.Module, loader, optimizer):
    for x, y in loader:
        loss = (model(x.cuda()) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        seen = loss.item()  # every step

def test(model: nn.Module, test_loader):
    for x, y in test_loader:
        held = (model(x.cuda()) - y).pow(2).mean().item()

def main(model, train_loader, test_loader, optimizer, epochs):
    for _ in range(3):
        model(next(iter(train_loader)).cuda()).mean().backward()
    for epoch in range(epochs):
        train(model, train_loader, optimizer)
        test(model, test_loader)
"""
    assert warned(folder, source) == {"every step"}


def test_what_a_flag_of_some_steps_guards_is_no_step(folder: Path) -> None:
    source = """
import torch
from torch import nn

def fit(model: nn.Module, loader, optimizer, every):
    for step, (x, y) in enumerate(loader):
        x = x.cuda()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        seen = loss.item()  # every step
        is_shown = step % every == 0
        if is_shown:
            print(loss.item())
"""
    assert warned(folder, source) == {"every step"}


def test_a_generation_that_begins_with_a_prompt_is_no_step_of_the_loop_over_prompts(folder: Path) -> None:
    source = """
import torch
from torch import nn

def generate(model: nn.Module, ids: torch.Tensor, length):
    place = torch.tensor([0], device="cuda")
    logits = model(ids, place)
    for at in range(length):
        place = torch.tensor([at], device="cuda")  # every token
        logits = model(logits, place)
    return logits

def serve(model: nn.Module, prompts, length):
    for prompt in prompts:
        generate(model, prompt.cuda(), length)
"""
    assert warned(folder, source) == {"every token"}


def test_calls_in_the_file_tell_which_objects_a_method_with_a_loop_is_given(folder: Path) -> None:
    (folder / "search.py").write_text(
        textwrap.dedent("""
        import torch

        class Greedy:
            def advance(self, scores):
                best = scores.argmax(-1)
                self.finished = [one == 2 for one in best.tolist()]
        """),
        encoding="utf-8",
    )
    source = """
    import torch
    from search import Greedy

    class Translator:
        def translate(self, batch):
            search = Greedy()
            return self._with_search(batch, search)

        def _with_search(self, batch, search):
            states = self.model.encoder(batch)
            for at in range(search.longest):
                place = torch.tensor([at], device="cuda")  # a token
                scores = self._scores(place, states)
                search.advance(scores)

        def _scores(self, place, states):
            return torch.log_softmax(self.model.decoder(place, states), -1)
    """
    (folder / "engine.py").write_text(textwrap.dedent(source), encoding="utf-8")
    report = scan_paths([folder], load_config(folder))
    waits = [(f.location.path, f.location.line) for f in report.findings if f.code in ("GS101", "GS301")]
    assert waits == [("engine.py", 13), ("search.py", 7)]
    other = source.replace("self.model.decoder(", "self.model.tokenizer(")
    assert not warned(folder, other)


@pytest.mark.parametrize(("inner", "is_step"), [("for epoch in range(epochs)", False), ("for part in parts", True)])
def test_a_loop_around_epochs_that_are_steps_is_no_step(folder: Path, inner: str, is_step: bool) -> None:
    source = f"""
import torch
from torch import nn

def fit(model: nn.Module, net: nn.Module, tasks, optimizer, epochs, parts):
    for task in tasks:
        given = net(task.cuda())
        {inner}:
            loss = model(given).pow(2).mean()
            loss.backward()
            optimizer.step()
            seen = loss.item()  # every step
        kept = torch.ones(3, device="cuda").sum().item()  # once a task
"""
    assert warned(folder, source) == {"every step"} | ({"once a task"} if is_step else set())


SCHEDULER = """
    import torch

    class Batch:
        def __init__(self, lengths: torch.Tensor):
            self.lengths = lengths

        def prepare(self, device):
            self.slots = torch.tensor([1, 2], device=device)  # before each step

        def merge(self, other: "Batch"):
            self.lengths = torch.cat([self.lengths, other.lengths])

    class Scheduler:
        def __init__(self, worker, device):
            self.worker, self.device = worker, device
            self.batch = Batch(torch.zeros(4, device=device))
            self.free = torch.zeros(4, device=device).tolist()

        def next_batch(self) -> Batch:
            self.batch.merge(Batch(torch.ones(2, device=self.device)))
            self.batch.prepare(self.device)
            return self.batch

        def launch(self, batch):
            return self.worker.execute_model(batch)

        def event_loop(self):
            while True:
                batch = self.next_batch()
                self.launch(batch)

        def status(self):
            return self.batch.lengths.tolist()
"""


def test_the_loop_of_a_scheduler_around_an_engine_is_a_step(folder: Path) -> None:
    assert warned(folder, SCHEDULER) == {"before each step"}
    assert warned(folder, SCHEDULER.replace("execute_model(", "describe(")) == set()


@pytest.mark.parametrize(("joined", "grows"), [("other.lengths", False), ("other.fresh", True)])
def test_a_batch_that_is_merged_with_another_does_not_grow_from_step_to_step(
    folder: Path, joined: str, grows: bool
) -> None:
    source = SCHEDULER.replace("other.lengths])", f"{joined}])").replace(
        "self.lengths = lengths", "self.lengths = self.fresh = lengths"
    )
    (folder / "engine.py").write_text(textwrap.dedent(source), encoding="utf-8")
    found = {f.code for f in scan_paths([folder], load_config(folder)).findings if f.level == "error"}
    assert ("GS402" in found) is grows


@pytest.mark.parametrize(
    ("inner", "name", "found"),
    [
        ("for _ in range(4)", "search", {"round"}),
        ("for _ in range(moves)", "search", set()),  # the inner loop is the step
        ("for _ in range(4)", "swarm", {"round"}),
        ("for _ in range(4)", "latest", {"round"}),
        ("for _ in range(4)", "warmup", set()),
        ("for _ in range(4)", "speed_test", set()),
    ],
)
def test_a_few_replays_in_a_row_are_one_step(folder: Path, inner: str, name: str, found: set[str]) -> None:
    source = f"""
        import torch

        class Runner:
            def __init__(self, model, x, stream):
                self.x = x
                model(x)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.y = model(x)
                self.lowest = torch.zeros((), device="cuda")

        def {name}(runner: Runner, rounds, moves):
            for number in range(rounds):
                {inner}:
                    runner.graph.replay()
                if runner.lowest.item() < 0.5:  # round
                    break
        """
    assert warned(folder, source) == found


@pytest.mark.parametrize(
    ("made", "called", "found"),
    [
        ("torch.cuda.make_graphed_callables(net, (x,))", "encode(x)", {"round"}),
        ("make_encoder(net, x)", "encode(x)", {"round"}),
        ("torch.cuda.make_graphed_callables(net, (x,))", "other(x)", set()),
        ("torch.jit.trace(net, (x,))", "encode(x)", set()),
        ("torch.cuda.make_graphed_callables(net, (x,))", "encode.eval()(x) + encode(x)", set()),  # without a graph
    ],
)
def test_a_loop_that_calls_a_graphed_callable_is_a_step(folder: Path, made: str, called: str, found: set[str]) -> None:
    source = f"""
        import torch

        def make_encoder(net, x):
            return torch.cuda.make_graphed_callables(net, (x,))

        def embed(encode, other, batches):
            limit = torch.zeros((), device="cuda")
            for x in batches:
                y = {called}
                if limit.item() > 3:  # round
                    break

        def main(net, other, batches, x):
            encode = {made}
            embed(encode, other, batches)
        """
    assert warned(folder, source) == found


@pytest.mark.parametrize(
    ("made", "work", "returned", "found"),
    [
        ("graphed(net, x)", "graph.replay()", "run", {"round"}),
        ("decorator(4)(net, x)", "graph.replay()", "run", {"round"}),
        ("graphed(net, x)", "graph.replay()", "x", set()),
        ("graphed(net, x)", "net(x)", "run", set()),
        ("Service(net)", "graph.replay()", "run", set()),
    ],
)
def test_a_loop_that_calls_a_returned_function_is_a_step(
    folder: Path, made: str, work: str, returned: str, found: set[str]
) -> None:
    source = f"""
        import torch

        def graphed(net, x):
            net(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                y = net(x)

            def run(batch):
                x.copy_(batch, non_blocking=True)
                {work}
                return y

            return {returned}

        def decorator(limit):
            def chosen(net, x):
                static, graph = x.clone(), torch.cuda.CUDAGraph()

                def run(batch):
                    graph.replay()

                return run

            return chosen

        class Service:
            def __init__(self, net):
                self.net = net

            def __call__(self, x):
                return self.net(x)

        def embed(encode, batches):
            limit = torch.zeros((), device="cuda")
            for x in batches:
                y = encode(x)
                if limit.item() > 3:  # round
                    break

        def main(net, batches, x):
            encode = {made}
            embed(encode, batches)
        """
    assert warned(folder, source) == found


MODEL_RUNNER = """
    import torch

    class Engine:
        def __init__(self, scheduler, runner):
            self.scheduler, self.{runner} = scheduler, runner

        def serve(self):
            while self.scheduler.is_open():
                batch = self.scheduler.next_batch()
                start = torch.tensor([0], device="cuda")
                output = self.{runner}.{method}(batch, start)
                self.scheduler.put(output)
"""


@pytest.mark.parametrize(
    ("runner", "method", "found"),
    [
        ("model_runner", "forward", ["GS301"]),
        ("worker", "forward_extend", ["GS301"]),
        ("worker", "start", []),
        ("queue", "forward", []),
    ],
)
def test_a_loop_that_runs_the_model_of_an_engine_is_a_step(
    tmp_path: Path, runner: str, method: str, found: list[str]
) -> None:
    text = textwrap.dedent(MODEL_RUNNER).format(runner=runner, method=method)
    (tmp_path / "engine.py").write_text(text, encoding="utf-8")
    findings = scan_paths([tmp_path], load_config(tmp_path)).findings
    assert [f.code for f in findings if f.level != "note"] == found


def test_a_training_loop_in_a_method_with_a_decorator_of_the_project(folder: Path) -> None:
    source = """
        import functools

        import torch

        def timed(function):
            @functools.wraps(function)
            def run(*args, **kwargs):
                return function(*args, **kwargs)

            return run

        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            @timed
            def train(self, batches):
                total = 0.0
                for x in batches:
                    loss = self.net(x).square().mean()
                    loss.backward()
                    self.optimizer.step()
                    total += loss.item()  # in the loop
                return total
        """
    assert warned(folder, source) == {"in the loop"}


def test_a_loop_that_asks_for_gradients_is_a_step(folder: Path) -> None:
    source = """
import torch

def relax(energy, x, rounds):
    for _ in range(rounds):
        slope = torch.autograd.grad(energy(x).sum(), x)[0]
        x = x - 0.1 * slope
        if slope.norm().item() < 1e-3:  # every round
            break
    return x
"""
    assert warned(folder, source) == {"every round"}
    assert warned(folder, source.replace("torch.autograd.grad(energy(x).sum(), x)[0]", "energy(x)")) == set()


@pytest.mark.parametrize(
    ("call", "is_step"),
    [("self(x)", True), ("self.forward(x)", True), ("self.noise_model(x)", True), ("self.load_model(x)", False)],
)
def test_a_loop_in_which_an_object_calls_itself_or_a_model_that_it_holds_is_a_step(
    folder: Path, call: str, is_step: bool
) -> None:
    source = f"""
import torch
from torch import nn

class Sampler(nn.Module):
    def __init__(self, noise_model):
        super().__init__()
        self.noise_model = noise_model

    def forward(self, x):
        return self.noise_model(x)

    def generate(self, x: torch.Tensor, rounds):
        for _ in range(rounds):
            x = x - {call}
            if x.norm().item() < 1:  # every round
                break
        return x
"""
    assert warned(folder, source) == ({"every round"} if is_step else set())


@pytest.mark.parametrize(
    ("head", "call", "is_step"),
    [
        ("while True", "self.cell(x)", True),
        ("while x.dim() > 1", "self.cell(x)", True),
        ("for layer in self.layers", "self.cell(x)", False),  # a part of a larger step
        ("while True", "self.shrink(x)", False),
    ],
)
def test_a_while_loop_in_which_a_module_calls_one_of_its_parts_is_a_step(
    folder: Path, head: str, call: str, is_step: bool
) -> None:
    source = f"""
import torch
from torch import nn

class Speaker(nn.Module):
    def __init__(self, cell, layers):
        super().__init__()
        self.cell, self.layers = cell, layers

    def shrink(self, x):
        return x / 2

    def forward(self, x):
        return self.cell(x)

    def speak(self, x: torch.Tensor):
        {head}:
            x = {call}
            if x.max().item() > 0:  # every frame
                break
        return x
"""
    assert warned(folder, source) == ({"every frame"} if is_step else set())


@pytest.mark.parametrize(("owner", "is_step"), [("envs", True), ("self.env", True), ("agenda", False)])
def test_a_loop_that_steps_an_environment_is_a_step(folder: Path, owner: str, is_step: bool) -> None:
    source = f"""
import torch

def collect(self, envs, agenda, agent, state: torch.Tensor, rounds):
    for _ in range(rounds):
        action = agent.act(state)
        state, reward = {owner}.step(action.sum().item())  # every round
"""
    assert warned(folder, source) == ({"every round"} if is_step else set())


@pytest.mark.parametrize(("cleared", "is_step"), [("self.pending = False", False), ("self.pending = True", True)])
def test_a_branch_that_clears_its_own_flag_is_taken_once(folder: Path, cleared: str, is_step: bool) -> None:
    source = f"""
import torch

class Viewer:
    def __init__(self, env):
        self.env, self.pending = env, True

    def turn(self, state: torch.Tensor, rounds):
        for _ in range(rounds):
            if self.pending:
                first = state.sum().item()  # under the flag
                {cleared}
            state = self.env.step(state)
"""
    assert warned(folder, source) == ({"under the flag"} if is_step else set())
