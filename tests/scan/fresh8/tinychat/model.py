import torch
import torch.nn.functional as F
from torch import nn

from tinychat.memory import FullMemory, Memory, SinkMemory


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def split(self, x):
        return x.view(1, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)

    def forward(self, x, memory: Memory):
        q, k, v = (self.split(p) for p in self.qkv(self.norm(x)).chunk(3, dim=-1))
        k, v = memory.put(k, v)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.ff(x)


class Chat(nn.Module):
    def __init__(self, vocab: int, width: int, heads: int, depth: int, banned: tuple = (0, 1, 2)):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, vocab, bias=False)
        self.heads = heads
        self.banned = list(banned)

    def memories(self, device, room: int):
        size = self.embed.embedding_dim // self.heads
        made = []
        for i in range(len(self.layers)):
            if i % 2:
                made.append(SinkMemory(self.heads, size, device, sinks=4, room=room // 2))
            else:
                made.append(FullMemory(self.heads, size, device, room))
        return made

    def forward(self, token, memories):
        x = self.embed(token)
        for layer, memory in zip(self.layers, memories):
            x = layer(x, memory)
        logits = self.head(x[:, -1])
        logits[:, self.banned] = float("-inf")
        return logits
