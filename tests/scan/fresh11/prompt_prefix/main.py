import torch
import torch.nn as nn

from prefix import PrefixEncoder, PrefixStore


class Block(nn.Module):
    def __init__(self, dim: int, store: PrefixStore):
        super().__init__()
        self.store = store
        self.prefix = PrefixEncoder(dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.scale = dim**-0.5

    def forward(self, x, prompt):
        pk, pv = self.store.fetch(self.prefix, prompt)
        k, v = self.kv(x).chunk(2, -1)
        keys, values = torch.cat((pk, k), 1), torch.cat((pv, v), 1)
        weight = (self.q(x) @ keys.transpose(1, 2) * self.scale).softmax(-1)
        return x + weight @ values


class PromptedModel(nn.Module):
    def __init__(self, dim: int = 24):
        super().__init__()
        self.block = Block(dim, PrefixStore())
        self.head = nn.Linear(dim, 7)

    def forward(self, x, prompt):
        return self.head(self.block(x, prompt)).mean(1)


def build(device):
    torch.manual_seed(25)
    model = PromptedModel().to(device).eval().requires_grad_(False)
    x = torch.randn(3, 6, 24, device=device)
    prompt = torch.randn(3, 4, 24, device=device)
    return model, (x, prompt)


if __name__ == "__main__":
    model, args = build(torch.device("cuda"))
    print(model(*args))
