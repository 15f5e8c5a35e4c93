"""One frame of a streaming codec language model: delayed codebooks, top-k sampling."""
import torch
from torch import nn


class CodebookRing:
    def __init__(self, streams, books, span, device):
        self.span = span
        self.data = torch.zeros(streams, books, span, dtype=torch.long, device=device)
        self.cursor = 0

    def push(self, codes):
        self.data[:, :, self.cursor].copy_(codes)
        self.cursor = (self.cursor + 1) % self.span

    def window(self):
        return self.data


class FrameModel(nn.Module):
    def __init__(self, books, vocab, dim):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(vocab, dim) for _ in range(books))
        self.body = nn.Linear(dim, dim)
        self.heads = nn.ModuleList(nn.Linear(dim, vocab) for _ in range(books))

    def forward(self, window, style):
        hidden = sum(e(window[:, b]).mean(dim=1) for b, e in enumerate(self.embed))
        hidden = torch.tanh(self.body(hidden) + style)
        return torch.stack([h(hidden) for h in self.heads], dim=1)


class MusicStepper:
    def __init__(self, model, ring, vocab, device):
        self.model = model
        self.ring = ring
        self.vocab = vocab
        self.device = device
        self.silence = 0
        self.emitted = 0

    def pick(self, logits, temperature):
        top = torch.topk(logits / temperature.view(-1, 1, 1), 8, dim=-1)
        floor = top.values[..., -1:]
        masked = logits.masked_fill(logits < floor, -1e4)
        return masked.argmax(dim=-1)

    @torch.no_grad()
    def frame(self, style, temperature):
        logits = self.model(self.ring.window(), style)
        codes = self.pick(logits, temperature)
        if (codes == self.silence).all():
            self.emitted += 1
        voiced = codes[codes != self.silence]
        energy = voiced.float().mean()
        self.ring.push(codes)
        return codes, energy


def build(device):
    torch.manual_seed(11)
    books, vocab, dim = 4, 64, 24
    model = FrameModel(books, vocab, dim).to(device).eval()
    ring = CodebookRing(2, books, 6, device)
    stepper = MusicStepper(model, ring, vocab, device)
    style = torch.randn(2, dim, device=device)
    temperature = torch.full((2,), 0.9, device=device)
    return stepper.frame, (style, temperature)
