"""Draft and target models are captured one after the other and share an arena."""
import torch
from torch import nn

VOCAB = 96


def make_model(width, seed, device):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(VOCAB, width), nn.Linear(width, width), nn.Tanh())
    model.append(nn.Linear(width, VOCAB))
    return model.to(device).requires_grad_(False)


class Arena:
    """Named buffers that captured models write their results to."""

    def __init__(self, device, rows):
        self.device, self.rows = device, rows
        self.buffers = {}

    def logits(self, name):
        slot = f"logits.{name}"
        if slot not in self.buffers:
            self.buffers[slot] = torch.zeros(self.rows, VOCAB, device=self.device)
        return self.buffers[slot]


class Captured:
    def __init__(self, name, model, arena, rows, device):
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.logits = arena.logits(name)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.logits.copy_(model(self.tokens))
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits.copy_(model(self.tokens))

    def run(self, tokens):
        self.tokens.copy_(tokens)
        self.graph.replay()
        return self.logits


def accept(draft_logits, target_logits, tokens):
    p = torch.softmax(target_logits, dim=-1)
    q = torch.softmax(draft_logits, dim=-1)
    rows = torch.arange(tokens.shape[0], device=tokens.device)
    ratio = p[rows, tokens] / q[rows, tokens]
    return ratio.clamp(max=1.0)


def main():
    device = torch.device("cuda")
    rows = 6
    arena = Arena(device, rows)
    draft = Captured("draft", make_model(16, 1, device), arena, rows, device)
    target = Captured("target", make_model(48, 2, device), arena, rows, device)
    tokens = torch.arange(rows, device=device)
    rate = torch.zeros((), device=device)
    for _ in range(20):
        draft_logits = draft.run(tokens)
        proposed = draft_logits.argmax(dim=-1)
        target_logits = target.run(tokens)
        rate += accept(draft_logits, target_logits, proposed).mean()
        tokens = (proposed * 7 + target_logits.argmax(dim=-1)) % VOCAB
    print("acceptance", round(rate.item() / 20, 5))


if __name__ == "__main__":
    main()
