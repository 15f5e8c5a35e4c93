"""Serves one captured model under changing adapters and weights."""
import os
from typing import Dict, Mapping

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, inner: nn.Linear, rank: int):
        super().__init__()
        self.inner = inner
        dev = inner.weight.device
        self.register_buffer("a", torch.zeros(rank, inner.in_features, device=dev))
        self.register_buffer("b", torch.zeros(inner.out_features, rank, device=dev))

    def forward(self, x):
        return self.inner(x) + (x @ self.a.t()) @ self.b.t()


class Classifier(nn.Module):
    def __init__(self, width=64, classes=10, rank=4):
        super().__init__()
        self.first = LoRALinear(nn.Linear(width, width), rank)
        self.second = LoRALinear(nn.Linear(width, classes), rank)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class AdapterStore:
    def __init__(self, model: nn.Module, device):
        self.model = model
        self.device = device
        self.loaded: Dict[str, Mapping[str, torch.Tensor]] = {}

    def load(self, name: str, path: str):
        self.loaded[name] = torch.load(path, map_location=self.device)

    def activate(self, name: str):
        weights = self.loaded[name]
        for key, module in self.model.named_modules():
            if isinstance(module, LoRALinear):
                module.a = weights[f"{key}.a"]
                module.b = weights[f"{key}.b"]


class Endpoint:
    def __init__(self, model, batch, width, device):
        self.model = model
        self.x = torch.zeros(batch, width, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream(device)

    @torch.no_grad()
    def warm(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x)

    def refresh(self, path):
        fresh = torch.load(path, map_location=self.x.device)
        for name, param in self.model.named_parameters():
            param.data = fresh[name]

    def __call__(self, x):
        self.x[: x.shape[0]].copy_(x)
        self.graph.replay()
        return self.y[: x.shape[0]].clone()


def serve(requests, directory, device):
    model = Classifier().to(device).eval()
    endpoint = Endpoint(model, 32, 64, device)
    endpoint.warm()
    store = AdapterStore(model, device)
    for entry in sorted(os.listdir(directory)):
        store.load(entry, os.path.join(directory, entry))
    for kind, payload in requests:
        if kind == "adapter":
            store.activate(payload)
        elif kind == "weights":
            endpoint.refresh(payload)
        else:
            yield endpoint(payload)
