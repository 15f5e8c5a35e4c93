"""A little decoder; `build` returns one greedy step of it."""
import torch
import torch.nn.functional as F
from torch import nn

from static_chat.store import Store


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, index: int):
        super().__init__()
        self.heads, self.index = heads, index
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, store: Store, mask):
        b, n, w = x.shape
        q, k, v = (p.view(b, n, self.heads, w // self.heads).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        k, v = store.put(self.index, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, n, w))


class Chat(nn.Module):
    def __init__(self, vocab=256, width=64, heads=4, depth=3, room=128):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(room, width)
        self.layers = nn.ModuleList(Layer(width, heads, i) for i in range(depth))
        self.head = nn.Linear(width, vocab)
        barred = torch.zeros(vocab, dtype=torch.bool)
        barred[[0, 1, 2]] = True
        self.register_buffer("barred", barred)
        self.calls = 0

    def forward(self, token, store: Store):
        x = self.embed(token) + self.place(store.at)
        mask = store.visible()
        for layer in self.layers:
            x = layer(x, store, mask)
        logits = self.head(x[:, -1]).masked_fill(self.barred, float("-inf"))
        store.forward_one()
        return logits


def checked(logits: torch.Tensor, debug: bool = False) -> torch.Tensor:
    if debug and not torch.isfinite(logits.max()):
        raise FloatingPointError("no finite logit")
    return logits


def build(device):
    torch.manual_seed(0)
    chat = Chat().to(device).eval().requires_grad_(False)
    store = Store(3, 4, 128, 16, device)
    token = torch.full((1, 1), 5, dtype=torch.int64, device=device)

    def greedy(token):
        return checked(chat(token, store)).argmax(-1, keepdim=True)

    return greedy, (token,)
