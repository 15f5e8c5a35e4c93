"""Inputs of a graph that a function fills only in part before the replay."""

from __future__ import annotations

import pytest

from .conftest import Scan

STREAM = """
class Stream:
    def __init__(self, net, device):
        self.net = net
        self.mel = torch.zeros(1, 40, 100, device=device)
        self.mask = torch.zeros(1, 100, dtype=torch.bool, device=device)
        self.lengths = torch.zeros(1, dtype=torch.int32, device=device)

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.mel, self.mask, self.lengths)

    def push(self, mel, mask):
        n = mel.shape[-1]
        {fills}
        self.graph.replay()
        return {returned}
"""


@pytest.mark.parametrize(
    ("fills", "returned", "filled"),
    [
        ("self.mel[..., :n].copy_(mel)", "self.y[..., :n].clone()", {"self.mel[..., :n].copy_(mel)"}),
        ("self.mel[..., :n].copy_(mel); self.mel[..., n:].zero_()", "self.y[..., :n].clone()", set()),
        ("self.mel.zero_(); self.mel[..., :n].copy_(mel)", "self.y[..., :n].clone()", set()),
        # Another input tells the graph how many columns count.
        ("self.mel[..., :n].copy_(mel); self.lengths.fill_(n)", "self.y[..., :n].clone()", set()),
        # A mask that is filled in part still shows the columns of an earlier call.
        (
            "self.mel[..., :n].copy_(mel); self.lengths.fill_(n); self.mask[:, :n].copy_(mask)",
            "self.y[..., :n].clone()",
            {"self.mask[:, :n].copy_(mask)"},
        ),
        # Rows do not see each other, unless the result is one number.
        ("self.mel[:n].copy_(mel)", "self.y[:n].clone()", set()),
        ("self.mel[:n].copy_(mel); self.lengths.fill_(n)", "self.y.item() / n", {"self.mel[:n].copy_(mel)"}),
    ],
)
def test_the_rest_of_an_input_counts(scan: Scan, fills: str, returned: str, filled: set[str]) -> None:
    found = scan(STREAM.format(fills=fills.replace("; ", "\n        "), returned=returned))
    assert {line for code, line in found if code == "GS708" and "[" in line} == filled


TRAINER = """
class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.ids = torch.zeros(8, 17, dtype=torch.long, device=device)
        self.labels = torch.zeros(8, 17, dtype=torch.long, device=device)
        self.weights = torch.zeros(8, device=device)

    def step(self):
        loss = self.model(self.ids[:, :-1], self.labels, self.weights).sum()
        {ends}
        return loss

    def capture(self, stream):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self.step()

    def fit(self, batches):
        for ids, labels in batches:
            n = ids.shape[0]
            {fills}
            self.graph.replay()
"""
BOTH = "self.ids[:n].copy_(ids); self.labels[:n].copy_(labels)"


@pytest.mark.parametrize(
    ("ends", "fills", "filled"),
    [
        ("loss.backward()", BOTH, {"self.ids[:n].copy_(ids)", "self.labels[:n].copy_(labels)"}),
        # Without gradients, the caller may drop the rows of padding.
        ("pass", BOTH, set()),
        # Another input tells the graph which rows count.
        ("loss.backward()", f"self.labels.fill_(-100); {BOTH}", set()),
        ("loss.backward()", f"{BOTH}; self.weights.copy_(torch.arange(8) < n)", set()),
        # A loop over the inputs is read as its lines.
        (
            "loss.backward()",
            "for static, new in ((self.ids, ids), (self.labels, labels)): static[:n].copy_(new)",
            {"for static, new in ((self.ids, ids), (self.labels, labels)): static[:n].copy_(new)"},
        ),
        (
            "loss.backward()",
            "for static, new in zip((self.ids, self.labels), (ids, labels)): static.copy_(new)",
            set(),
        ),
    ],
)
def test_all_rows_count_in_training(scan: Scan, ends: str, fills: str, filled: set[str]) -> None:
    found = scan(TRAINER.format(ends=ends, fills=fills.replace("; ", "\n            ")))
    assert {line for code, line in found if code == "GS708" and "[" in line} == filled


SAMPLER = """
class Sampler:
    def __init__(self, encode, model, device):
        self.encode, self.model = encode, model
        self.cond = torch.zeros(1, 24, device=device)
        self.uncond = torch.zeros(1, 24, device=device)
        self.latent = torch.zeros(1, 24, device=device)

    def capture(self, stream):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.latent.add_(self.model(torch.cat([self.cond, self.uncond])))

    def load(self, prompt, negative):
        cond = self.encode(prompt)
        {computed}
        self.cond.copy_(cond)
        return cond

    def sample(self, prompt, negative):
        self.load(prompt, negative)
        self.graph.replay()
        {after}
        return self.latent.clone()
"""


@pytest.mark.parametrize(
    ("computed", "after", "missed"),
    [
        ("uncond = self.encode(negative)", "pass", {"self.cond.copy_(cond)"}),
        ("uncond = self.encode(negative); self.uncond.copy_(uncond)", "pass", set()),
        ("uncond = self.encode(negative)", "self.uncond.copy_(self.encode(negative))", set()),
        ("pass", "pass", set()),
    ],
)
def test_a_value_that_is_computed_but_never_copied(scan: Scan, computed: str, after: str, missed: set[str]) -> None:
    found = scan(SAMPLER.format(computed=computed.replace("; ", "\n        "), after=after))
    assert {line for code, line in found if code == "GS708"} == missed


COPIES = """
class Denoiser:
    def __init__(self, net):
        self.net = net
        self.entries = {{}}

    def build(self, z, cond, uncond):
        bufs = {copies}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.net(**bufs)
        return graph, bufs, out

    def __call__(self, z, cond, uncond):
        key = tuple(z.shape)
        if key not in self.entries:
            self.entries[key] = self.build(z, cond, uncond)
        graph, bufs, out = self.entries[key]
        {fills}
        graph.replay()
        return out.clone()
"""
CLONES = "dict(z=z.clone(), cond=cond.clone(), uncond=uncond.clone())"
FILLED = 'bufs["z"].copy_(z); bufs["cond"].copy_(cond)'


@pytest.mark.parametrize(
    ("copies", "fills", "missed"),
    [
        (CLONES, FILLED, {"graph.replay()"}),
        ('{"z": z.clone(), "cond": cond.clone(), "uncond": uncond.clone()}', FILLED, {"graph.replay()"}),
        (CLONES, f'{FILLED}; bufs["uncond"].copy_(uncond)', set()),
        (CLONES, f"{FILLED}; self.fill(bufs, uncond)", set()),
    ],
)
def test_a_copy_of_an_argument_that_later_calls_leave_out(
    scan: Scan, copies: str, fills: str, missed: set[str]
) -> None:
    found = scan(COPIES.format(copies=copies, fills=fills.replace("; ", "\n        ")))
    assert {line for code, line in found if code == "GS708"} == missed


CACHED = """
class Decoder:
    def __init__(self, net, cache, device):
        self.net, self.cache = net, cache
        self.tokens = torch.zeros(4, dtype=torch.long, device=device)
        self.slots = torch.zeros(4, dtype=torch.long, device=device)
        self.graphs = {{}}

    def _work(self, b):
        tokens, slots = self.tokens[:b], self.slots[:b]
        return self.net(tokens, slots, self.cache)

    def capture(self, b):
        graph = torch.cuda.CUDAGraph()
        self._work(b)
        with torch.cuda.graph(graph):
            out = self._work(b)
        self.graphs[b] = graph, out

    def decode(self, tokens, slots, b):
        n = tokens.shape[0]
        graph, out = self.graphs[b]
        self.tokens[:n].copy_(tokens)
        self.slots[:n].copy_(slots)
        {rest}
        graph.replay()
        return out[:n].clone()
"""


@pytest.mark.parametrize(
    ("rest", "filled"), [("pass", {"self.slots[:n].copy_(slots)"}), ("self.slots[n:].fill_(-1)", set())]
)
def test_padding_rows_name_the_slots_of_an_earlier_call(scan: Scan, rest: str, filled: set[str]) -> None:
    assert {line for code, line in scan(CACHED.format(rest=rest)) if code == "GS708"} == filled


NORMALISED = """
class Normaliser:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(32, 16, device=device)
        self.mask = torch.zeros(32, 1, device=device)

    def _work(self):
        {work}

    def capture(self):
        self._work()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self._work()

    def run(self, x, mask):
        n = x.shape[0]
        self.x[:n].copy_(x)
        {more}
        self.graph.replay()
        return self.y[:n].clone()
"""
FILLED_ROWS = {"self.x[:n].copy_(x)"}


@pytest.mark.parametrize(
    ("work", "more", "filled"),
    [
        ("return self.net(self.x - self.x.mean(0))", "pass", FILLED_ROWS),
        ("h = self.net(self.x); return h - torch.mean(h, dim=0)", "pass", FILLED_ROWS),
        ("h = self.net(self.x); return h.softmax(0)", "pass", FILLED_ROWS),
        ("h = self.net(self.x); return h.softmax(-1)", "pass", set()),
        ("return torch.stack([self.net(self.x), self.x]).mean(0)", "pass", set()),
        ("return self.net(self.x - (self.x * self.mask).sum(0))", "self.mask.copy_(mask)", set()),
    ],
)
def test_captured_code_combines_the_rows(scan: Scan, work: str, more: str, filled: set[str]) -> None:
    found = scan(NORMALISED.format(work=work.replace("; ", "\n        "), more=more))
    assert {line for code, line in found if code == "GS708"} == filled


NAMED = """
class Runner:
    def __init__(self, net, device):
        self.net = net
        self.inputs = {{"x": torch.zeros(4, 16, device=device), "t": torch.zeros(4, 1, device=device)}}

    def _work(self):
        return self.net(self.inputs["x"]) * self.inputs["t"]

    def capture(self):
        self._work()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self._work()

    def run(self, given):
        {fill}
        self.graph.replay()
        return self.y.clone()
"""


@pytest.mark.parametrize(
    ("fill", "found"),
    [
        ("self.inputs.update(given)", {"self.inputs.update(given)"}),
        ("for name, value in given.items(): self.inputs[name].copy_(value)", set()),
    ],
)
def test_an_update_of_a_dict_replaces_inputs(scan: Scan, fill: str, found: set[str]) -> None:
    assert {line for code, line in scan(NAMED.format(fill=fill)) if code == "GS707"} == found


RANKER = """
class Ranker:
    def __init__(self, net, device):
        self.net = net
        self.query = torch.zeros(1, 16, device=device)
        self.valid = torch.zeros(32, device=device)
        self.ids = torch.zeros(32, dtype=torch.long, device=device)
        self.host = torch.empty(5, dtype=torch.long)

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.best = self.net(self.query, self.ids, self.valid).topk(5).indices

    def rank(self, query, ids, valid):
        self.query.copy_(query)
        self.ids[: ids.shape[0]].copy_(ids)
        {more}
        self.graph.replay()
        self.host.copy_(self.best)
        return self.host.tolist()
"""


@pytest.mark.parametrize(("more", "found"), [("pass", True), ("self.valid.copy_(valid)", False)])
def test_an_input_that_is_filled_as_a_whole_beside_a_part(scan: Scan, more: str, found: bool) -> None:
    codes = {(code, line) for code, line in scan(RANKER.format(more=more))}
    assert (("GS708", "self.ids[: ids.shape[0]].copy_(ids)") in codes) is found
