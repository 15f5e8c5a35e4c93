"""A block that was captured earlier on its own is replayed inside of the step."""

import torch

import graphsafe


def build(device):
    weight = torch.randn(16, 16, device=device) / 4
    inner_in, inner_out = torch.zeros(4, 16, device=device), torch.zeros(4, 16, device=device)

    def block():
        inner_out.copy_(torch.tanh(inner_in @ weight))

    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        block()
    torch.cuda.current_stream(device).wait_stream(side)
    inner = torch.cuda.CUDAGraph()
    with torch.cuda.graph(inner, stream=side):
        block()

    def step(x):
        inner_in.copy_(x)
        inner.replay()
        return inner_out + x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(step, (torch.randn(4, 16, device=device),), refresh=refresh)
