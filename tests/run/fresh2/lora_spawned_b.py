"""LoRA worker in its own process: load an adapter, serve it, unload it, go on with base traffic."""
import multiprocessing as mp

import torch
from torch import nn

DIM, RANK, BATCH = 128, 8, 6


class LoraLinear(nn.Module):
    def __init__(self, dim, rank, device):
        super().__init__()
        self.base = nn.Linear(dim, dim, device=device)
        self.lora_a = nn.Parameter(torch.zeros(dim, rank, device=device))
        self.lora_b = nn.Parameter(torch.zeros(rank, dim, device=device))

    def forward(self, x):
        y = self.base(x)
        if self.lora_a is not None:
            y = y + (x @ self.lora_a) @ self.lora_b
        return y


class Runner:
    def __init__(self, device):
        self.layers = nn.ModuleList(LoraLinear(DIM, RANK, device) for _ in range(2))
        self.x = torch.zeros(BATCH, DIM, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward()

    def forward(self):
        h = self.x
        for layer in self.layers:
            h = torch.nn.functional.gelu(layer(h))
        return h

    def load_adapter(self, seed):
        gen = torch.Generator().manual_seed(seed)
        for layer in self.layers:
            layer.lora_a.copy_(torch.randn(DIM, RANK, generator=gen) * 0.05)
            layer.lora_b.copy_(torch.randn(RANK, DIM, generator=gen) * 0.05)

    def unload_adapter(self):
        for layer in self.layers:
            layer.lora_a = None
            layer.lora_b = None

    def serve(self, steps, gen):
        total = torch.zeros((), device=self.x.device)
        for _ in range(steps):
            self.x.normal_(generator=gen)
            self.graph.replay()
            total += self.y.sum()
        return total


def worker(pipe):
    device = torch.device("cuda")
    torch.manual_seed(1)
    gen = torch.Generator(device=device).manual_seed(2)
    with torch.no_grad():
        runner = Runner(device)
        runner.load_adapter(4)
        with_adapter = runner.serve(8, gen)
        runner.unload_adapter()
        base = runner.serve(8, gen)
        pipe.send(float(with_adapter + base))
    pipe.close()


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    here, there = ctx.Pipe()
    proc = ctx.Process(target=worker, args=(there,))
    proc.start()
    print(round(here.recv(), 3))
    proc.join()
