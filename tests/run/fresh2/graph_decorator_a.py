"""Graph decorator: wraps a tensor function, captures it on first use and replays it afterwards."""
import functools
from collections import OrderedDict

import torch

DEV = torch.device("cuda")
DIM = 64


def graphed(limit=32):
    def wrap(fn):
        table = OrderedDict()

        def capture(x):
            static = x
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    fn(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = fn(static)
            return graph, static, out

        @functools.wraps(fn)
        def call(x):
            key = (tuple(x.shape), x.dtype, x.data_ptr())
            if key not in table:
                table[key] = capture(x)
                if len(table) > limit:
                    table.popitem(last=False)
            graph, static, out = table[key]
            graph.replay()
            return out

        return call

    return wrap


def weight(seed):
    gen = torch.Generator().manual_seed(seed)
    return (torch.randn(DIM, DIM, generator=gen) / 8).to(DEV)


W1, W2 = weight(1), weight(2)


@graphed()
def block(x):
    return x + torch.nn.functional.silu(x @ W1) @ W2


@torch.no_grad()
def main():
    gen = torch.Generator().manual_seed(14)
    requests = [torch.randn(8, DIM, generator=gen).to(DEV) for _ in range(8)]
    total = torch.zeros((), device=DEV)
    for rounds in range(2):
        for x in requests:
            total += block(x).pow(2).mean()
    print(round(float(total), 4))


main()
