import torch
from torch import nn


class DraftModel(nn.Module):
    """A recurrent drafter: hidden state in, token distribution out."""

    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state), state


class Drafter:
    def __init__(self, model: DraftModel, window: int, seed: int, device):
        self.model = model
        self.window = window
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)

    def propose(self, token, state):
        """Samples `window` tokens in a row, with the distribution each came from."""
        tokens, probs = [], []
        for _ in range(self.window):
            logits, state = self.model(token, state)
            p = logits.softmax(-1)
            token = torch.multinomial(p, 1, generator=self.rng).squeeze(1)
            tokens.append(token)
            probs.append(p)
        return torch.stack(tokens, 1), torch.stack(probs, 1)
