"""A mixture of experts too large for the device: the experts of the next layer are copied ahead on a side stream."""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HIDDEN, EXPERTS, SLOTS, LAYERS = 32, 64, 8, 2, 3


class HostExperts:
    """The weights of all experts of a layer, in pinned memory."""

    def __init__(self, layer):
        torch.manual_seed(layer)
        self.up = (torch.randn(EXPERTS, HIDDEN, WIDTH) * 0.1).pin_memory()
        self.down = (torch.randn(EXPERTS, WIDTH, HIDDEN) * 0.1).pin_memory()


class SlottedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.register_buffer("up", torch.zeros(SLOTS, HIDDEN, WIDTH))
        self.register_buffer("down", torch.zeros(SLOTS, WIDTH, HIDDEN))
        self.register_buffer("held", torch.zeros(SLOTS, dtype=torch.long))

    def forward(self, x):
        weight = self.gate(x).softmax(-1)[:, self.held]
        hidden = F.silu(torch.einsum("shw,bw->bsh", self.up, x))
        mixed = torch.einsum("swh,bsh->bsw", self.down, hidden)
        return x + (mixed * weight.unsqueeze(-1)).sum(1)


class Prefetcher:
    def __init__(self, layers, experts):
        self.layers = layers
        self.experts = experts
        self.stream = torch.cuda.Stream()
        self.ready = [torch.cuda.Event() for _ in layers]
        self.loaded = [None] * len(layers)

    def ask(self, number, wanted):
        if self.loaded[number] == wanted:
            return
        layer, source = self.layers[number], self.experts[number]
        with torch.cuda.stream(self.stream):
            for slot, expert in enumerate(wanted):
                layer.up[slot].copy_(source.up[expert], non_blocking=True)
                layer.down[slot].copy_(source.down[expert], non_blocking=True)
                layer.held[slot].fill_(expert)
        self.ready[number].record()
        self.loaded[number] = wanted

    def wait(self, number):
        torch.cuda.current_stream().wait_event(self.ready[number])


class LayerGraph:
    def __init__(self, layer, x):
        self.layer = layer
        self.x = x
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            layer(x)
            layer(x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = layer(x)
            self.scores = layer.gate(self.y).mean(0)


class Offloaded:
    def __init__(self, batch):
        self.layers = [SlottedLayer().cuda().requires_grad_(False) for _ in range(LAYERS)]
        self.prefetcher = Prefetcher(self.layers, [HostExperts(n) for n in range(LAYERS)])
        self.x = torch.zeros(batch, WIDTH, device="cuda")
        self.graphs = []
        x = self.x
        for layer in self.layers:
            self.graphs.append(LayerGraph(layer, x))
            x = self.graphs[-1].y

    def step(self, x):
        self.x.copy_(x)
        for number, graph in enumerate(self.graphs):
            self.prefetcher.wait(number)
            graph.graph.replay()
            following = (number + 1) % LAYERS
            wanted = graph.scores.topk(SLOTS).indices.tolist()
            self.prefetcher.ask(following, wanted)
        return graph.y


@torch.no_grad()
def main():
    torch.manual_seed(7)
    model = Offloaded(batch=6)
    for number in range(LAYERS):
        model.prefetcher.ask(number, [0, 1])
    x = torch.randn(6, WIDTH, device="cuda")
    trail = []
    for _ in range(12):
        x = model.step(x)
        trail.append(x)
    torch.save(torch.stack(trail), "trail.pt")


if __name__ == "__main__":
    main()
