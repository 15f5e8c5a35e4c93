"""Three-piece pipeline: a prefix projection, a gate computed on a helper stream, and the mixer."""
import functools

import torch

DEV = torch.device("cuda")
ROWS, DIM = 16, 96


def rand(rows, cols, seed):
    gen = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, cols, generator=gen) / rows ** 0.5).to(DEV)


class Pipeline:
    def __init__(self):
        self.prefix = torch.zeros(ROWS, DIM, device=DEV)
        self.x = torch.zeros(ROWS, DIM, device=DEV)
        self.gate = torch.zeros(ROWS, DIM, device=DEV)
        self.out = torch.zeros(ROWS, DIM, device=DEV)
        self.wp, self.wm = rand(DIM, DIM, 1), rand(DIM, DIM, 2)
        self.helper = torch.cuda.Stream()
        self.pieces = {}

    @functools.lru_cache(maxsize=None)
    def project(self):
        return torch.tanh(self.prefix @ self.wp)

    def open_gate(self):
        with torch.cuda.stream(self.helper):
            torch.mul(self.x, 0.5, out=self.gate)
            self.gate.sigmoid_()

    def mix(self):
        torch.matmul(self.x * self.gate, self.wm, out=self.out)
        self.out.add_(self.projected)

    def piece(self, name, fn):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                result = fn()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = fn()
        self.pieces[name] = graph
        return result

    def build(self):
        self.projected = self.piece("project", self.project)
        self.piece("gate", self.open_gate)
        self.piece("mix", self.mix)

    def __call__(self, prefix, x):
        self.prefix.copy_(prefix)
        self.x.copy_(x)
        for name in ("project", "gate", "mix"):
            self.pieces[name].replay()
        return self.out


@torch.no_grad()
def main():
    pipe = Pipeline()
    pipe.build()
    gen = torch.Generator(device=DEV).manual_seed(9)
    total = torch.zeros((), device=DEV)
    for _ in range(12):
        prefix = torch.randn(ROWS, DIM, device=DEV, generator=gen)
        x = torch.randn(ROWS, DIM, device=DEV, generator=gen)
        total += pipe(prefix, x).abs().mean()
    print(round(float(total), 4))


main()
