"""A model larger than its share of memory: layers' weights lie in pinned memory and are brought over in turn by a copy stream."""
import torch
import torch.nn.functional as F

import graphsafe

LAYERS, WIDTH = 6, 64


class Offloaded:
    def __init__(self, device):
        self.cuda, self.device = device.type == "cuda", device
        self.host = [torch.randn(WIDTH, WIDTH) / 8 for _ in range(LAYERS)]
        if self.cuda:
            self.host = [w.pin_memory() for w in self.host]
            self.copies = torch.cuda.Stream(device)
            self.arrived = [torch.cuda.Event() for _ in range(LAYERS)]
            self.free = [torch.cuda.Event() for _ in range(LAYERS)]
        self.slots = torch.zeros(2, WIDTH, WIDTH, device=device)
        self.x = torch.zeros(8, WIDTH, device=device)

    def fetch(self, i):
        if not self.cuda:
            self.slots[i % 2].copy_(self.host[i])
            return
        if i >= 2:
            self.copies.wait_event(self.free[i - 2])
        with torch.cuda.stream(self.copies):
            self.slots[i % 2].copy_(self.host[i], non_blocking=True)
            self.arrived[i].record()

    def step(self):
        main = torch.cuda.current_stream(self.device) if self.cuda else None
        if self.cuda:
            self.copies.wait_stream(main)
        x = self.x
        self.fetch(0)
        for i in range(LAYERS):
            if i + 1 < LAYERS and i == 0:
                self.fetch(1)
            if self.cuda:
                main.wait_event(self.arrived[i])
            x = x + F.silu(x @ self.slots[i % 2])
            if self.cuda:
                self.free[i].record(main)
            if 0 < i + 2 < LAYERS:
                self.fetch(i + 2)
        return F.layer_norm(x, (WIDTH,))

    def tune(self, args, kwargs, k):
        """One layer's weights change each round; the loop waits for the last step first."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
        self.x.copy_(torch.randn(8, WIDTH))
        self.host[k % LAYERS].copy_(torch.randn(WIDTH, WIDTH) / 8)


def build(device):
    model = Offloaded(device)
    return graphsafe.Step(model.step, (), {}, refresh=model.tune)
