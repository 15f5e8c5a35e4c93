"""Steps that take the device's memory on known lines."""

import torch


def scratch(device, rows=1024):
    def step(x):
        wide = torch.zeros(rows, 64, device=x.device)  # line: wide
        twice = wide * 2  # line: twice
        del wide
        return twice[:4] + x  # line: output

    return step, (torch.ones(4, 64, device=device),)


def in_place(device):
    out = torch.zeros(64, device=device)

    def step(x):
        torch.add(x, 1.0, out=out)
        return out

    return step, (torch.ones(64, device=device),)


def unready(device):
    """Cannot be captured; what its step takes is told all the same."""

    def step(x):
        wide = x.expand(1024, 64) * 2.0  # line: unready
        return wide[: int(x.sum())].sum(0)

    return step, (torch.ones(64, device=device),)


def only_captured(device):
    """Cannot be run eagerly along the path that a capture takes."""

    def step(x):
        if torch.cuda.is_current_stream_capturing() and torch.cuda.current_stream() == torch.cuda.default_stream():
            raise RuntimeError("not without a graph")
        return x * 2

    return step, (torch.ones(64, device=device),)
