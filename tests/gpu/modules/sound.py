"""Inference steps that one graph can replay, among them several that look as if it could not."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class DevicePosition(nn.Module):
    """A key/value cache whose position is counted on the device."""

    def __init__(self, width, device):
        super().__init__()
        self.project = nn.Linear(width, 2 * width).to(device)
        self.register_buffer("keys", torch.zeros(512, width, device=device))
        self.register_buffer("values", torch.zeros(512, width, device=device))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64, device=device))
        self.register_buffer("places", torch.arange(512, device=device))

    @torch.no_grad()
    def forward(self, x):
        key, value = self.project(x).chunk(2, dim=-1)
        self.keys.index_copy_(0, self.position, key)
        self.values.index_copy_(0, self.position, value)
        scores = (x @ self.keys.T).masked_fill(self.places > self.position, float("-inf"))
        self.position.add_(1)
        return scores.softmax(-1) @ self.values


def build_device_position(device):
    return DevicePosition(8, device), (torch.randn(1, 8, device=device),)


class CountedCalls(nn.Module):
    """The count is for a report that somebody else writes."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.calls = 0
        self.tokens = {"seen": 0}

    @torch.no_grad()
    def forward(self, x):
        self.calls += 1
        self.tokens["seen"] += x.shape[0]
        if self.calls % 100 == 0:
            logger.debug("%d calls", self.calls)
        return F.silu(self.layer(x))


def build_counted_calls(device):
    return CountedCalls(16).to(device), (torch.randn(4, 16, device=device),)


class DropoutMlp(nn.Module):
    """Dropout in training mode, from the default generator."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)

    @torch.no_grad()
    def forward(self, x):
        return self.down(F.dropout(torch.relu(self.up(x)), 0.3))


def build_dropout_mlp(device):
    return DropoutMlp(16).to(device), (torch.randn(8, 16, device=device),)


class CategoricalSampler(nn.Module):
    """Top-k sampling with the default generator."""

    def __init__(self, width, vocabulary):
        super().__init__()
        self.head = nn.Linear(width, vocabulary)

    @torch.no_grad()
    def forward(self, hidden):
        values, ids = self.head(hidden).topk(8, dim=-1)
        choice = torch.multinomial(values.softmax(-1), 1)
        return ids.gather(-1, choice)


def build_categorical_sampler(device):
    return CategoricalSampler(16, 64).to(device), (torch.randn(16, 16, device=device),)


class RegisteredNoise(nn.Module):
    """Names a generator, which is the one that every graph knows."""

    def __init__(self, device):
        super().__init__()
        self.generator = torch.cuda.default_generators[device.index or 0]

    def forward(self, x):
        return x + torch.empty_like(x).normal_(generator=self.generator)


def build_registered_noise(device):
    x = torch.randn(4, 16, device=device)  # before the module: there are no default generators until a device is used
    return RegisteredNoise(device), (x,)


class AwareMask(nn.Module):
    """Passes a mask while it is captured and a flag otherwise: equal within rounding."""

    def __init__(self, width, length, device):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width).to(device)
        causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        self.register_buffer("causal", causal)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if torch.cuda.is_current_stream_capturing():
            return F.scaled_dot_product_attention(q, k, v, attn_mask=self.causal)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def build_aware_mask(device):
    return AwareMask(64, 32, device), (torch.randn(2, 32, 64, device=device),)


class RingBuffer(nn.Module):
    """The last sixteen frames in one tensor, written at a place that the device knows."""

    def __init__(self, width, device):
        super().__init__()
        self.register_buffer("frames", torch.zeros(16, width, device=device))
        self.register_buffer("head", torch.zeros(1, dtype=torch.int64, device=device))

    def forward(self, frame):
        self.frames.index_copy_(0, self.head, frame)
        self.head.add_(1).remainder_(16)
        return self.frames.mean(0)


def build_ring_buffer(device):
    return RingBuffer(8, device), (torch.randn(1, 8, device=device),)


class PinnedCopy(nn.Module):
    """Slots in pinned memory that lives as long as the module, copied without waiting."""

    def __init__(self, device):
        super().__init__()
        self.host_slots = (torch.arange(4) * 3 % 7).pin_memory()
        self.register_buffer("slots", torch.zeros(4, dtype=torch.int64, device=device))
        self.register_buffer("table", torch.randn(8, 8, device=device))

    def forward(self, x):
        self.slots.copy_(self.host_slots, non_blocking=True)
        return x + self.table.index_select(0, self.slots)


def build_pinned_copy(device):
    return PinnedCopy(device), (torch.randn(4, 8, device=device),)


class ForkedExperts(nn.Module):
    """Two experts on two streams, forked and joined."""

    def __init__(self, width, device):
        super().__init__()
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.side = torch.cuda.Stream(device)

    @torch.no_grad()
    def forward(self, x):
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            right = self.right(x)
        left = self.left(x)
        current.wait_stream(self.side)
        return left + right


def build_forked_experts(device):
    return ForkedExperts(8, device).to(device), (torch.randn(4, 8, device=device),)


class PackedPool(nn.Module):
    """Sums packed sequences whose offsets are an input."""

    def __init__(self, width, sequences):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.sequences = sequences
        self.register_buffer("places", torch.arange(16))

    @torch.no_grad()
    def forward(self, tokens, offsets):
        owner = torch.bucketize(self.places, offsets[1:], right=True)
        pooled = tokens.new_zeros(self.sequences, tokens.shape[1])
        return pooled.index_add_(0, owner, self.layer(tokens))


def build_packed_pool(device):
    offsets = torch.tensor([0, 5, 11, 16], device=device)
    return PackedPool(8, 3).to(device), (torch.randn(16, 8, device=device), offsets)


def change_offsets(args, kwargs, k):
    args[0].normal_()
    args[1].copy_(torch.tensor([0, 2 + k, 9 + k % 3, 16]))


class GivenPositions(nn.Module):
    """Position ids come in as 0, 1, 2, ... and are looked up."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(64, width)

    @torch.no_grad()
    def forward(self, ids, position_ids):
        return self.tokens(ids) + self.positions(position_ids)


def build_given_positions(device):
    ids = torch.randint(0, 50, (2, 8), device=device)
    return GivenPositions(50, 8).to(device), (ids, torch.arange(8, device=device).expand(2, 8).contiguous())


def change_positions(args, kwargs, k):
    args[0].random_(0, 50)
    args[1].copy_(torch.arange(k, k + 8))


class ZeroHead(nn.Module):
    """A diffusion model's last layer starts as zeros, so nothing that goes in shows."""

    def __init__(self, width):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def forward(self, x):
        return self.head(F.silu(self.body(x)))


def build_zero_head(device):
    return ZeroHead(8).to(device), (torch.randn(4, 8, device=device),)


class DenseExperts(nn.Module):
    """Every expert works on every token, and weights choose."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.weights = nn.Parameter(torch.randn(experts, width, width) / width, requires_grad=False)

    @torch.no_grad()
    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        gates = (F.one_hot(chosen, num_classes=self.weights.shape[0]) * weights.unsqueeze(-1)).sum(1)
        return torch.einsum("tw,ewo,te->to", x, self.weights, gates)


def build_dense_experts(device):
    return DenseExperts(16, 4).to(device), (torch.randn(8, 16, device=device),)


class FilledPadding(nn.Module):
    """Padding is filled, not cut out."""

    def forward(self, x, keep):
        x[~keep] = 0.0
        return x.sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


def build_filled_padding(device):
    keep = torch.arange(6, device=device) < torch.tensor([[4], [6]], device=device)
    return FilledPadding(), (torch.randn(2, 6, 4, device=device), keep)


class RotaryByShape(nn.Module):
    """A table that the first step makes, from sizes alone."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None or self.table.shape[0] < x.shape[1]:
            angles = torch.arange(x.shape[1], device=x.device)[:, None] * 0.1
            self.table = torch.cos(angles)
        return x * self.table[: x.shape[1]]


def build_rotary_by_shape(device):
    return RotaryByShape(), (torch.randn(2, 6, 8, device=device),)


class ExplicitInverse(nn.Module):
    """The variant of the inverse that leaves its flag on the device."""

    def forward(self, a, b):
        matrix = a @ a.T + torch.eye(a.shape[0], device=a.device)
        inverse, _ = torch.linalg.inv_ex(matrix)
        return inverse @ b


def build_explicit_inverse(device):
    return ExplicitInverse(), (torch.randn(6, 6, device=device), torch.randn(6, device=device))


class PaddedExpand(nn.Module):
    """Repeats rows to a length that is known."""

    def forward(self, rows, repeats):
        return torch.repeat_interleave(rows, repeats, dim=0, output_size=12).cumsum(0)


def build_padded_expand(device):
    return PaddedExpand(), (torch.randn(5, 4, device=device), torch.tensor([2, 3, 2, 3, 2], device=device))


def change_repeats(args, kwargs, k):
    args[0].normal_()
    args[1].copy_(torch.tensor([[1, 3, 3, 3, 2], [4, 1, 3, 2, 2], [2, 2, 2, 2, 4]][k % 3]))


class GuardedCheck(nn.Module):
    """Checks its ids, but not while it is captured."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    @torch.no_grad()
    def forward(self, ids):
        if not torch.cuda.is_current_stream_capturing():
            assert int(ids.max()) < self.table.num_embeddings
        return self.table(ids)


def build_guarded_check(device):
    return GuardedCheck(100, 16).to(device), (torch.randint(0, 100, (2, 8), device=device),)


class QuietPrint(nn.Module):
    """Debugging that is off."""

    debug = False

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        y = self.layer(x)
        if self.debug:
            print("largest", y.abs().max().item())
        logger.debug("block of %s", y.shape)
        return y


def build_quiet_print(device):
    return QuietPrint(8).to(device), (torch.randn(4, 8, device=device),)


class KeptActivation(nn.Module):
    """Keeps its last activation for whoever wants to look; no step reads it."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.last = None

    @torch.no_grad()
    def forward(self, x):
        self.last = self.layer(x)
        return torch.relu(self.last)


def build_kept_activation(device):
    return KeptActivation(8).to(device), (torch.randn(4, 8, device=device),)


class DeviceSchedule(nn.Module):
    """A sampler that looks its noise level up on the device."""

    def __init__(self, width):
        super().__init__()
        self.denoise = nn.Linear(width, width)
        self.register_buffer("sigmas", torch.linspace(1, 0.01, 512))
        self.register_buffer("index", torch.zeros(1, dtype=torch.int64))

    @torch.no_grad()
    def forward(self, latent):
        sigma = self.sigmas.index_select(0, self.index)
        self.index.add_(1)
        return latent - sigma * self.denoise(latent)


def build_device_schedule(device):
    return DeviceSchedule(8).to(device), (torch.randn(4, 8, device=device),)


class SpectralMixing(nn.Module):
    """A Fourier layer, with its length from the shape."""

    def __init__(self, modes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(modes), requires_grad=False)

    def forward(self, x):
        modes = self.weight.shape[0]
        spectrum = torch.fft.rfft(x)
        mixed = F.pad(spectrum[..., :modes] * self.weight, (0, spectrum.shape[-1] - modes))
        return torch.fft.irfft(mixed, n=int(x.shape[-1]))


def build_spectral_mixing(device):
    return SpectralMixing(5).to(device), (torch.randn(4, 32, device=device),)


class StagedResult(nn.Module):
    """Copies its token to pinned memory without waiting; whoever reads it waits for an event after the replay."""

    def __init__(self, width, vocabulary, device):
        super().__init__()
        self.head = nn.Linear(width, vocabulary).to(device)
        self.host_token = torch.zeros(4, dtype=torch.int64).pin_memory()

    @torch.no_grad()
    def forward(self, hidden):
        token = self.head(hidden).argmax(-1)
        self.host_token.copy_(token, non_blocking=True)
        return token


def build_staged_result(device):
    return StagedResult(16, 64, device), (torch.randn(4, 16, device=device),)


CHANGE = {
    "build_packed_pool": change_offsets,
    "build_given_positions": change_positions,
    "build_padded_expand": change_repeats,
}
