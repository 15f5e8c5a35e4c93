"""Steps in which the host reads or waits for the device."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)
logger.addHandler(logging.NullHandler())


class StopCheck(nn.Module):
    """Greedy decoding that notes on the host whether the first sequence has ended."""

    def __init__(self, hidden=32, vocabulary=64, end=2):
        super().__init__()
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.end = end
        self.finished = False

    @torch.no_grad()
    def forward(self, hidden):
        logits = self.head(hidden)
        token = logits.argmax(-1)
        self.finished = token[0].item() == self.end  # guilty: stop_check GS101
        return token, logits


def build_stop_check(device):
    return StopCheck().to(device), (torch.randn(4, 32, device=device),)


class TemperatureSampler(nn.Module):
    """Divides logits by a temperature that the scheduler keeps on the device."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    @torch.no_grad()
    def forward(self, logits, temperature):
        scale = 1.0 / float(temperature)  # guilty: temperature GS101
        return torch.softmax(self.norm(logits) * scale, dim=-1)


def build_temperature(device):
    return TemperatureSampler(64).to(device), (torch.randn(4, 64, device=device), torch.tensor(0.7, device=device))


class RaggedPool(nn.Module):
    """Mean of each sequence's tokens, a sequence at a time."""

    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, tokens, lengths):
        hidden = self.project(tokens)
        pooled = []
        for row, length in zip(hidden, lengths.tolist(), strict=True):  # guilty: ragged_pool GS101
            pooled.append(row[:length].mean(0))
        return torch.stack(pooled)


def build_ragged_pool(device):
    return RaggedPool(16).to(device), (torch.randn(3, 8, 16, device=device), torch.tensor([5, 8, 5], device=device))


class PositionRow(nn.Module):
    """Adds the embedding of the current position, looked up by a tensor without dimensions."""

    def __init__(self, positions, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(positions, width), requires_grad=False)

    def forward(self, x, position):
        return x + self.table[position[0]]  # guilty: position_row GS101


def build_position_row(device):
    return PositionRow(64, 16).to(device), (torch.randn(2, 16, device=device), torch.tensor([5, 5, 9], device=device))


class NormLog(nn.Module):
    """Logs the norm of the activations of each step."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        y = F.silu(self.layer(x))
        logger.info(f"activation norm {y.norm():.3f}")  # guilty: norm_log GS104
        return y


def build_norm_log(device):
    return NormLog(32).to(device), (torch.randn(8, 32, device=device),)


class HostRanking(nn.Module):
    """Ranks candidates with numpy and gathers them on the device."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    @torch.no_grad()
    def forward(self, candidates):
        scores = self.score(candidates).squeeze(-1)
        best = int(scores.cpu().numpy().argmax())  # guilty: host_ranking GS103
        return candidates[best] * scores.softmax(0).unsqueeze(-1)


def build_host_ranking(device):
    return HostRanking(16).to(device), (torch.randn(12, 16, device=device),)


class ProfiledBlock(nn.Module):
    """Waits for the device so that its own timer tells the truth."""

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    @torch.no_grad()
    def forward(self, x):
        hidden = F.gelu(self.up(x))
        torch.cuda.synchronize()  # guilty: profiled_block GS105
        return self.down(hidden)


def build_profiled_block(device):
    return ProfiledBlock(16).to(device), (torch.randn(4, 16, device=device),)


class PolledCopy(nn.Module):
    """Takes the short way when the event of the copy says that it is over."""

    def __init__(self, width, device):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, device=device), requires_grad=False)
        self.ready = torch.cuda.Event()

    def forward(self, x):
        y = x @ self.weight
        self.ready.record()
        while not self.ready.query():  # guilty: polled_copy GS105
            pass
        return y.relu()


def build_polled_copy(device):
    return PolledCopy(16, device), (torch.randn(4, 16, device=device),)


class FixedPoint(nn.Module):
    """A deep-equilibrium layer that stops when an iteration changes nothing."""

    def __init__(self, width):
        super().__init__()
        self.cell = nn.Linear(width, width)
        with torch.no_grad():
            self.cell.weight.mul_(0.2)

    @torch.no_grad()
    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(6):
            following = torch.tanh(self.cell(z) + x)
            if torch.equal(following, z):  # guilty: fixed_point GS106
                break
            z = following
        return z


def build_fixed_point(device):
    return FixedPoint(16).to(device), (torch.randn(4, 16, device=device),)


class LossMeter(nn.Module):
    """A regression loss that feeds a running average on the host."""

    def __init__(self, width):
        super().__init__()
        self.model = nn.Linear(width, 1)
        self.history = []

    @torch.no_grad()
    def forward(self, x, target):
        loss = F.mse_loss(self.model(x).squeeze(-1), target)
        self.history.append(loss.item())  # guilty: loss_meter GS101
        return loss


def build_loss_meter(device):
    return LossMeter(8).to(device), (torch.randn(16, 8, device=device), torch.randn(16, device=device))


class CheckedEmbedding(nn.Module):
    """The check of the ids is thought to be kept out of captures by `is_compiling`."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.vocabulary = vocabulary
        self.table = nn.Embedding(vocabulary, width)

    @torch.no_grad()
    def forward(self, ids):
        if not torch.compiler.is_compiling() and ids.max() >= self.vocabulary:  # guilty: checked_embedding GS102
            raise IndexError("token outside of the vocabulary")
        return self.table(ids)


def build_checked_embedding(device):
    return CheckedEmbedding(100, 16).to(device), (torch.randint(0, 100, (2, 8), device=device),)


class TracedMask(nn.Module):
    """Skips the mask where nothing is padded, unless a compiler is at work."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x, keep):
        bias = None
        if torch.compiler.is_dynamo_compiling() or not bool(keep.all()):  # guilty: traced_mask GS101|GS102
            bias = keep[:, None, None, :]
        q = self.query(x).unflatten(-1, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias)


def build_traced_mask(device):
    keep = torch.ones(2, 6, dtype=torch.bool, device=device)
    keep[1, 4:] = False
    return TracedMask(16).to(device), (torch.randn(2, 6, 16, device=device), keep)
