"""The decode layer of a port, before and after the faults were repaired that the port's own detector of waits found.

A mixture-of-experts model was ported to a new device. The team searched its hot path for patterns of waits, ran one
step in sync-debug mode, tried to capture one layer, and made a list of rules. `PortedLayer` has a line for each rule;
`RepairedLayer` has the repaired lines. They give the same numbers. Both also have lines that the rules must not
report: branches on values that the host knows (batch size, dtype, step, layer number), reads under `VERBOSE >= 2`, work
while loading and warming up, and copies from pinned memory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

VERBOSE = int(os.environ.get("PORT_VERBOSE", "0"))
PAD = 0
RATIO = 4
"The number of steps after which the compressor has an output."


class Layer(nn.Module):
    """The common part of both layers. `hidden` is [batch, dim]; `token_ids` is [batch], with `PAD` for an empty row."""

    odd_rows: Tensor

    def __init__(self, batch: int, tokens: int, dim: int, num_experts: int, device: torch.device) -> None:
        super().__init__()
        self.batch, self.tokens, self.num_experts = batch, tokens, num_experts
        self.capacity = max(1, batch // 2)
        self.gate = nn.Linear(dim, num_experts, device=device)
        self.query = nn.Linear(dim, dim, device=device)
        self.up = nn.Parameter(torch.randn(num_experts, dim, dim, device=device) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(dim, dim, device=device) * dim**-0.5)
        self.register_buffer("odd_rows", torch.arange(batch, device=device) % 2 == 1)
        self.gate_bias = [0.01 * expert for expert in range(num_experts)]
        self.temperature = 0.7
        self.largest_weight = self.up.detach().abs().max().item()

    def check(self, hidden: Tensor, step: int) -> None:
        if hidden.shape[0] > self.batch or not hidden.is_floating_point():
            raise ValueError(f"step {step}: built for {self.batch} floating-point rows, got {tuple(hidden.shape)}")
        if VERBOSE >= 2:
            logger.info("step %d: largest activation %f", step, hidden.abs().max().item())


class PortedLayer(Layer):
    def __init__(self, batch: int, tokens: int, dim: int, num_experts: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, num_experts, device)
        self.channel_gain = torch.linspace(0.9, 1.1, dim)
        self.keys = torch.zeros(batch, 0, dim, device=device)
        self.kernel_args = torch.zeros(2, device=device)
        self.seen = 0

    def forward(self, hidden: Tensor, token_ids: Tensor, step: int = 0) -> Tensor:
        self.check(hidden, step)
        residual = hidden.clone()
        hidden = self.drop_padding(hidden, token_ids)
        hidden = self.dispatch(hidden, self.route(hidden))
        if hidden.is_cuda:
            torch.cuda.synchronize()
        hidden = self.project(hidden + self.attend(hidden))
        hidden = self.rescale(hidden, token_ids)
        compressed = self.compress(hidden)
        if compressed is not None:
            hidden = hidden + compressed
        return residual + hidden

    def drop_padding(self, hidden: Tensor, token_ids: Tensor) -> Tensor:
        padded = torch.nonzero(token_ids == PAD).flatten()
        return hidden.index_fill(0, padded, 0.0)

    def route(self, hidden: Tensor) -> Tensor:
        scores = self.gate(hidden) + torch.tensor(self.gate_bias, device=hidden.device)
        first, second = scores.topk(2, dim=-1).indices.unbind(-1)
        counts = torch.bincount(first, minlength=self.num_experts)
        if (counts > self.capacity).any():
            first = torch.where(self.odd_rows, second, first)
        return first

    def dispatch(self, hidden: Tensor, experts: Tensor) -> Tensor:
        output = torch.zeros_like(hidden)
        served = experts.bincount(minlength=self.num_experts)
        sizes = served.tolist()
        for expert, rows in enumerate(experts.argsort(stable=True).split(sizes)):
            output.index_copy_(0, rows, hidden.index_select(0, rows) @ self.up[expert])
        return output

    def attend(self, hidden: Tensor) -> Tensor:
        self.keys = torch.cat([self.keys, hidden.unsqueeze(1)], dim=1)
        self.kernel_args[0] = self.temperature
        scores = torch.einsum("bd,btd->bt", self.query(hidden), self.keys) / self.kernel_args[0]
        return torch.einsum("bt,btd->bd", scores.softmax(dim=-1), self.keys)

    def project(self, hidden: Tensor) -> Tensor:
        product = torch.empty(hidden.shape, device=hidden.device)
        return torch.mm(hidden, self.down, out=product)

    def rescale(self, hidden: Tensor, token_ids: Tensor) -> Tensor:
        real = hidden[token_ids != PAD]
        largest = real.abs().sum(dim=0).max().cpu()
        gain = self.channel_gain.to(hidden.device)
        return hidden * gain / (1.0 + float(largest))

    def compress(self, hidden: Tensor) -> Tensor | None:
        self.seen += 1
        if self.seen % RATIO != 0:
            return None
        return torch.full((1, 1), 0.5, device=hidden.device) * hidden.mean(dim=0, keepdim=True)


class RepairedLayer(Layer):
    bias: Tensor
    channel_gain: Tensor
    ones: Tensor
    counts: Tensor
    product: Tensor
    keys: Tensor
    slots: Tensor
    position: Tensor
    kernel_args: Tensor
    seen: Tensor

    def __init__(self, batch: int, tokens: int, dim: int, num_experts: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, num_experts, device)
        self.register_buffer("bias", torch.tensor(self.gate_bias, device=device))
        self.register_buffer("channel_gain", torch.linspace(0.9, 1.1, dim).to(device))
        self.register_buffer("ones", torch.ones(batch, dtype=torch.int64, device=device))
        self.register_buffer("counts", torch.zeros(num_experts, dtype=torch.int64, device=device))
        self.register_buffer("product", torch.empty(batch, dim, device=device))
        self.register_buffer("keys", torch.zeros(batch, tokens, dim, device=device))
        self.register_buffer("slots", torch.arange(tokens, device=device))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64, device=device))
        self.register_buffer("kernel_args", torch.zeros(2, device=device))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64, device=device))
        self.host_args = torch.zeros(2, pin_memory=device.type == "cuda")
        self.set_temperature(self.temperature)

    def set_temperature(self, temperature: float) -> None:
        """Set the temperature between steps. The next step, eager or replayed, copies it to the device."""
        self.host_args[0] = temperature

    def forward(self, hidden: Tensor, token_ids: Tensor, step: int = 0) -> Tensor:
        self.check(hidden, step)
        residual = hidden
        hidden = hidden.masked_fill((token_ids == PAD).unsqueeze(1), 0.0)
        hidden = self.dispatch(hidden, self.route(hidden))
        hidden = self.project(hidden + self.attend(hidden))
        hidden = self.rescale(hidden, token_ids)
        return residual + hidden + self.compress(hidden)

    def route(self, hidden: Tensor) -> Tensor:
        scores = self.gate(hidden) + self.bias
        first, second = scores.topk(2, dim=-1).indices.unbind(-1)
        self.counts.zero_().scatter_add_(0, first, self.ones)
        crowded = (self.counts > self.capacity).any()
        return torch.where(crowded & self.odd_rows, second, first)

    def dispatch(self, hidden: Tensor, experts: Tensor) -> Tensor:
        return torch.bmm(hidden.unsqueeze(1), self.up.index_select(0, experts)).squeeze(1)

    def attend(self, hidden: Tensor) -> Tensor:
        self.keys.index_copy_(1, self.position % self.tokens, hidden.unsqueeze(1))
        self.position.add_(1)
        self.kernel_args.copy_(self.host_args, non_blocking=True)
        scores = torch.einsum("bd,btd->bt", self.query(hidden), self.keys) / self.kernel_args[0]
        weights = scores.masked_fill(self.slots >= self.position, float("-inf")).softmax(dim=-1)
        return torch.einsum("bt,btd->bd", weights, self.keys)

    def project(self, hidden: Tensor) -> Tensor:
        return torch.mm(hidden, self.down, out=self.product)

    def rescale(self, hidden: Tensor, token_ids: Tensor) -> Tensor:
        real = hidden.masked_fill((token_ids == PAD).unsqueeze(1), 0.0)
        largest = real.abs().sum(dim=0).max()
        return hidden * self.channel_gain / (1.0 + largest)

    def compress(self, hidden: Tensor) -> Tensor:
        """Return the compressor's output, or zero in steps without an output."""
        self.seen.add_(1)
        due = self.seen % RATIO == 0
        return torch.where(due, 0.5 * hidden.mean(dim=0, keepdim=True), 0.0)


def capture_ported(step: Callable[[], Tensor]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def capture_repaired(step: Callable[[], Tensor], device: torch.device) -> torch.cuda.CUDAGraph:
    """Warm up and capture, on one stream of the tensors' device."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    torch.cuda.current_stream(device).wait_stream(stream)
    return graph


def _inputs(device: torch.device, batch: int) -> tuple[tuple[Tensor, Tensor], dict[str, int]]:
    token_ids = torch.arange(batch, device=device) * 7 % 3
    return (torch.randn(batch, 32, device=device), token_ids), {"step": 0}


def build_layer(
    device: torch.device, *, batch: int = 4, length: int = 64
) -> tuple[nn.Module, tuple[Tensor, Tensor], dict[str, int]]:
    """`length` is the number of tokens that fit into the repaired layer's cache; the ported layer's cache grows."""
    layer = PortedLayer(batch, length, dim=32, num_experts=4, device=device).requires_grad_(False)
    return layer, *_inputs(device, batch)


def build_repaired(
    device: torch.device, *, batch: int = 4, length: int = 64
) -> tuple[nn.Module, tuple[Tensor, Tensor], dict[str, int]]:
    layer = RepairedLayer(batch, length, dim=32, num_experts=4, device=device).requires_grad_(False)
    return layer, *_inputs(device, batch)
