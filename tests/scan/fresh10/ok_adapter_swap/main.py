"""Serves several adapters from one graph: an adapter is copied into the slot
that the model owns."""
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Request:
    adapter: str
    ids: torch.Tensor


class LoRALinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.lora_a = nn.Parameter(torch.zeros(rank, dim))
        self.lora_b = nn.Parameter(torch.zeros(dim, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t()) @ self.lora_b.t()


class Model(nn.Module):
    def __init__(self, vocab=100, dim=32, rank=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(LoRALinear(dim, rank) for _ in range(depth))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x.mean(dim=0)


class Server:
    def __init__(self, device, names, length=16):
        torch.manual_seed(1)
        self.device = device
        self.model = Model().to(device).eval().requires_grad_(False)
        self.adapters = {
            name: [
                (torch.randn_like(l.lora_a), torch.randn_like(l.lora_b)) for l in self.model.layers
            ]
            for name in names
        }
        self.active = None
        self.ids = torch.zeros(length, dtype=torch.long, device=device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(2):
                self.model(self.ids)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.vector = self.model(self.ids)

    def load(self, name):
        with torch.no_grad():
            for layer, (a, b) in zip(self.model.layers, self.adapters[name]):
                layer.lora_a.copy_(a)
                layer.lora_b.copy_(b)
        self.active = name

    def drain(self, queue, out):
        row = 0
        while queue:
            request = queue.popleft()
            if request.adapter != self.active:
                self.load(request.adapter)
            self.ids.copy_(request.ids, non_blocking=True)
            self.graph.replay()
            out[row].copy_(self.vector)
            row += 1
        return out


def main():
    device = torch.device("cuda")
    server = Server(device, ["chat", "code", "sql"])
    queue = deque()
    for i, name in enumerate(["chat", "code", "code", "sql", "chat"]):
        queue.append(Request(name, torch.randint(0, 100, (16,)).pin_memory()))
    out = torch.zeros(len(queue), 32, device=device)
    held = list(queue)
    server.drain(queue, out)
    print(len(held), out.norm(dim=-1).tolist())


if __name__ == "__main__":
    main()
