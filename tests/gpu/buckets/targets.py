"""Steps in several buckets, each with one known cause of trouble between buckets or in padding, and sound twins."""

import enum
import functools

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe

WIDTH = 8


@functools.cache
def shared(kind, device, *arguments):
    """One model for all buckets, as in an engine."""
    torch.manual_seed(0)
    return kind(*arguments).to(device)


def rows(batch, device, width=WIDTH):
    torch.manual_seed(batch)
    return torch.randn(batch, width, device=device)


def lengths(batch, device):
    """Longest first, so that no filled row happens to sort behind the live ones."""
    return 5 - torch.arange(batch, device=device) % 5


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.tanh(self.linear(x))


# Padding that reaches live requests.


class Normed(Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return self.norm(super().forward(x))


def batch_norm(device, batch=2):
    torch.manual_seed(0)
    return Normed().to(device), (rows(batch, device),)


def centred(device, batch=2):
    return (lambda x: x - x.mean(0, keepdim=True)), (rows(batch, device),)


def batch_softmax(device, batch=2):
    return (lambda x: x.softmax(0)), (rows(batch, device),)


def in_batch_similarity(device, batch=2):
    return (lambda x: (x @ x.mT / WIDTH).softmax(-1) @ x), (rows(batch, device),)


def tensor_scale(device, batch=2):
    """Quantised with one scale for the whole tensor, from its deviation."""
    return (lambda x: torch.round(x / (3 * x.std()) * 127) / 127), (rows(batch, device) * 3,)


def mean_square(device, batch=2):
    return (lambda x: x * torch.rsqrt(x.square().mean() + 1e-6)), (rows(batch, device),)


def expert_capacity(device, batch=2):
    """An expert takes the two tokens that want it most; the others get nothing."""

    def route(x):
        kept = torch.zeros_like(x).scatter(0, x.topk(2, dim=0).indices, 1.0)
        return x * kept

    return route, (rows(batch, device),)


def popularity(device, batch=2):
    """Each request is weighed by how many have the same expert."""

    def weigh(x, experts):
        counts = torch.zeros(8, device=x.device).scatter_add(0, experts, torch.ones_like(experts, dtype=x.dtype))
        return x / counts[experts].unsqueeze(1)

    return weigh, (rows(batch, device), torch.arange(batch, device=device) % 3)


def last_row(device, batch=2):
    return (lambda x: x + x[-1]), (rows(batch, device),)


def reversed_rows(device, batch=2):
    return (lambda x: x.flip(0)), (rows(batch, device),)


def sorted_rows(device, batch=2):
    """Shortest first, and never put back in order."""
    return (lambda x, n: x[torch.argsort(n, stable=True)]), (
        rows(batch, device),
        lengths(batch, device),
    )


def pooled(device, batch=2):
    return (lambda x: (x * 2).mean()), (rows(batch, device),)


# What buckets do to each other.


class PlannedForBatch(Layer):
    """The plan is made when the batch changes: in warm-up, and so not in the graph."""

    def __init__(self):
        super().__init__()
        self.register_buffer("plan", torch.zeros(1))
        self.planned_for = 0

    def forward(self, x):
        if self.planned_for != x.shape[0]:
            self.planned_for = x.shape[0]
            self.plan.fill_(1.0 / x.shape[0])
        return super().forward(x) * self.plan


def planned_for_batch(device, batch=2):
    return shared(PlannedForBatch, device), (rows(batch, device),)


class WorkSplit(Layer):
    """Attention metadata of the last batch that was planned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("split", torch.zeros(16, dtype=torch.int64))
        self.batch = None

    def forward(self, x):
        if self.batch != x.shape[0]:
            self.batch = x.shape[0]
            self.split.copy_(torch.arange(16, device=x.device) % x.shape[0])
        return super().forward(x) + self.split.sum()


def work_split(device, batch=2):
    return shared(WorkSplit, device), (rows(batch, device),)


class MaskOfBatch(Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.zeros(16, 16))
        self.filled = -1

    def forward(self, x):
        n = x.shape[0]
        if self.filled != n:
            self.mask.zero_()
            self.mask[:n, :n].fill_diagonal_(1.0 / n)
            self.filled = n
        return self.mask[:n, :n] @ super().forward(x)


def mask_of_batch(device, batch=2):
    return shared(MaskOfBatch, device), (rows(batch, device),)


class Scaled(Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.seen = set()

    def forward(self, x):
        n = x.shape[0]
        if self.seen != {n}:
            self.seen = {n}
            self.scale.copy_(torch.full((), n**0.5, device=x.device))
        return super().forward(x) * self.scale


def scale_of_batch(device, batch=2):
    return shared(Scaled, device), (rows(batch, device),)


class TableOfLength(nn.Module):
    """A rotary table, filled for the query length that came last."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(16))
        self.length = None

    def forward(self, x):
        if self.length != x.shape[1]:
            self.length = x.shape[1]
            self.table.copy_(torch.cos(torch.arange(16, device=x.device) / x.shape[1]))
        return x * self.table[: x.shape[1]].unsqueeze(1)


def table_of_length(device, batch=2, q_len=1):
    torch.manual_seed(batch)
    return shared(TableOfLength, device), (torch.randn(batch, q_len, WIDTH, device=device),)


class Regrown(Layer):
    """A table that is made anew where the batch changes: the graph reads what has been freed."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None or self.table.shape[0] != x.shape[0]:
            self.table = torch.linspace(1, 2, x.shape[0], device=x.device).unsqueeze(1)
        return super().forward(x) * self.table


def regrown_table(device, batch=2):
    # With gradients, the outputs of the capture would keep the table alive.
    return shared(Regrown, device).requires_grad_(False), (rows(batch, device),)


class StaticOutput(Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("out", torch.zeros(64, WIDTH))

    def forward(self, x):
        return self.out[: x.shape[0]].copy_(super().forward(x))


def static_output(device, batch=2):
    return shared(StaticOutput, device), (rows(batch, device),)


def scratch_output(device, batch=2):
    """Two outputs, one of them a view of memory that all buckets use."""
    scratch = shared(nn.Embedding, device, 64, WIDTH).weight.detach()
    return (lambda x: (x * 2, scratch[: x.shape[0]].copy_(x))), (rows(batch, device),)


# One bucket that cannot be captured, and declarations.


class Support(enum.Enum):
    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3


class LargeBatch(Layer):
    """Large batches take a way that reads the device."""

    def forward(self, x):
        if x.shape[0] > 4:
            return super().forward(x) / float(x.abs().max())
        return super().forward(x)


def large_batch(device, batch=2):
    torch.manual_seed(0)
    return LargeBatch().to(device), (rows(batch, device),)


class Speculating(nn.Module):
    _cudagraph_support = Support.UNIFORM_BATCH

    def forward(self, q, n):
        if q.shape[1] > 1:
            return q[:, : int(n.max())]
        return q * 2


def over_declared(device, batch=2, q_len=1):
    torch.manual_seed(batch)
    n = torch.full((batch,), q_len, device=device)
    return Speculating().to(device), (torch.randn(batch, q_len, WIDTH, device=device), n)


class Modest(nn.Module):
    _cudagraph_support = Support.UNIFORM_SINGLE_TOKEN_DECODE

    def forward(self, q):
        return q.softmax(-1)


def under_declared(device, batch=2, q_len=1):
    torch.manual_seed(batch)
    return Modest(), (torch.randn(batch, q_len, WIDTH, device=device),)


# Sound ones.


def one_model(device, batch=2):
    return shared(Layer, device), (rows(batch, device),)


def own_model(device, batch=2):
    torch.manual_seed(0)
    return Layer().to(device), (rows(batch, device),)


def layer_norm(device, batch=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)).to(device), (rows(batch, device),)


def eval_batch_norm(device, batch=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)).to(device).eval(), (rows(batch, device),)


def row_scale(device, batch=2):
    return (lambda x: torch.round(x / x.abs().amax(1, keepdim=True).clamp(min=1e-6) * 127) / 127), (
        rows(batch, device) * 3,
    )


def masked_mean(device, batch=2):
    def centre(x, n):
        there = (n > 0).unsqueeze(1)
        return x - torch.where(there, x, 0.0).sum(0) / there.sum().clamp(min=1)

    return centre, (rows(batch, device), lengths(batch, device))


def multiplied_mask(device, batch=2):
    """NaN gets through a mask that is multiplied."""

    def centre(x, n):
        there = (n > 0).unsqueeze(1).to(x.dtype)
        return x - (x * there).sum(0) / there.sum().clamp(min=1)

    return centre, (rows(batch, device), lengths(batch, device))


def largest_scale(device, batch=2):
    """Zeros leave the largest number as it is."""
    return (lambda x: torch.round(x / x.abs().amax() * 127) / 127), (rows(batch, device) * 3,)


def suffix_sums(device, batch=2):
    """Zeros add nothing."""
    return (lambda x: x.flip(0).cumsum(0).flip(0)), (rows(batch, device),)


def prefix_sums(device, batch=2):
    return (lambda x: x.cumsum(0)), (rows(batch, device),)


class PlansEachStep(Layer):
    """Where each row goes, planned anew in each step in one buffer. Results do not depend on the batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("plan", torch.zeros(16, dtype=torch.int64))

    def forward(self, x):
        n = x.shape[0]
        torch.arange(n, out=self.plan[:n])
        return super().forward(x)[self.plan[:n]]


def plans_each_step(device, batch=2):
    return shared(PlansEachStep, device), (rows(batch, device),)


class PlanOfEach(Layer):
    """The same plan for each batch size, kept."""

    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        n = x.shape[0]
        if n not in self.plans:
            self.plans[n] = torch.arange(n, device=x.device)
        return super().forward(x)[self.plans[n]]


def plan_of_each(device, batch=2):
    return shared(PlanOfEach, device), (rows(batch, device),)


def cloned_output(device, batch=2):
    scratch = shared(nn.Embedding, device, 64, WIDTH).weight.detach()
    return (lambda x: scratch[: x.shape[0]].copy_(x).clone()), (rows(batch, device),)


class Cache(nn.Module):
    """Each request adds to a slot and reads it back. Added, not written: of two rows that write one slot, a GPU lets
    any win."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(32, WIDTH))

    def forward(self, x, slots):
        self.keys.index_add_(0, slots, x + 1)
        return torch.tanh(self.keys[slots]) + x


def cache_slots(device, batch=2):
    return Cache().to(device), (rows(batch, device), torch.arange(batch, device=device))


class History(Layer):
    """What all buckets have seen, summed: shared by design."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(WIDTH))

    def forward(self, x):
        self.total.add_(x[0])
        return super().forward(x) + self.total


def shared_history(device, batch=2):
    return shared(History, device), (rows(batch, device),)


class Truthful(nn.Module):
    _cudagraph_support = Support.UNIFORM_BATCH

    def forward(self, q):
        return F.silu(q)


def true_declaration(device, batch=2, q_len=1):
    torch.manual_seed(batch)
    return Truthful(), (torch.randn(batch, q_len, WIDTH, device=device),)


class Decoder(nn.Module):
    """As many layers and operations as a real one, narrow."""

    def __init__(self, layers=24, width=256):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def decoder(device, batch=2, q_len=1):
    model = shared(Decoder, device).train()
    model.requires_grad_(False)
    torch.manual_seed(batch)
    return model, (torch.randn(batch, q_len, 256, device=device),)


_SPLITS = {}


def kept_plan(device, batch=2):
    """The first bucket that is built leaves its plan in a variable of the module, and all others use it."""
    if device not in _SPLITS:
        _SPLITS[device] = batch / 10
    share = _SPLITS[device]
    return (lambda x: x * share), (torch.randn(batch, 8, device=device),)


# Integers in padding that no live row has.


class Chosen(nn.Module):
    """Reads the row of the table that `ids` and `shift` add up to: legal for each request, and not for all pairs."""

    def __init__(self, low):
        super().__init__()
        self.low = low
        self.table = nn.Embedding(16, WIDTH)

    def forward(self, ids, shift):
        return self.table(ids + shift - self.low)


def _pairs(batch, low, k=0):
    """The sum of both is at most `low + 15`; that of the largest of each is more."""
    ids = (torch.arange(batch) * 5 + k) % 16
    return low + ids, (torch.arange(batch) * 3 + k) % (16 - ids)


def _with_pairs(device, batch, low):
    def refresh(args, kwargs, k):
        for mine, new in zip(args, _pairs(batch, low, k), strict=True):
            mine.copy_(new)

    args = tuple(one.to(device) for one in _pairs(batch, low))
    return graphsafe.Step(shared(Chosen, device, low), args, refresh=refresh)


def stale_pairs(device, batch=2):
    """A stale padding row holds an index that no request can have; zeros are one."""
    return _with_pairs(device, batch, 0)


def no_zero_pairs(device, batch=2):
    """Zeros are no legal ids: a replay that pads with them fails."""
    return _with_pairs(device, batch, 20)


# Random numbers of a bucket's own, behind a model that all buckets share.


@functools.cache
def _drawn_once(device):
    return nn.Linear(WIDTH, WIDTH).to(device).requires_grad_(False)


def own_head(device, batch=2):
    """The head gets other random numbers if another bucket has already drawn the model."""
    model = _drawn_once(device)
    head = nn.Linear(WIDTH, WIDTH).to(device).requires_grad_(False)
    return (lambda x: head(model(x))), (torch.randn(batch, WIDTH, device=device),)


_SCALES = []


def own_head_and_scale(device, batch=2):
    """As `own_head`, but the step also reads a number that another bucket has changed."""
    step, args = own_head(device, batch)
    _SCALES.append(batch)
    scale = float(_SCALES[0])
    return (lambda x: step(x) * scale), args
