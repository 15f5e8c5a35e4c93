"""Steps on several streams inside a graph. Each line that a ledger must name says so."""

import torch
import torch.distributed as dist
from torch import nn

DEVICE = torch.device("cuda")
GRAPHS = []


def lane():
    """A stream that runs beside the current one from here on."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return stream


def join(*streams):
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)


def run(step):
    warm = lane()
    with torch.cuda.stream(warm):
        step()
    join(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    GRAPHS.append((graph, step, out))
    graph.replay()
    graph.replay()


class Mixture(nn.Module):
    """The shared expert runs beside the routed one, on rows with a third dimension."""

    def __init__(self):
        super().__init__()
        self.norm, self.shared, self.routed = nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("common", torch.zeros(2, 4, 16))

    def late(self, x):
        x = self.norm(x)
        beside = lane()
        with torch.cuda.stream(beside):
            self.common.copy_(self.shared(x))
        y = x + self.routed(x) + self.common  # expect: GS619
        join(beside)
        return y

    def joined(self, x):
        x = self.norm(x)
        beside = lane()
        with torch.cuda.stream(beside):
            self.common.copy_(self.shared(x))
        y = x + self.routed(x)
        join(beside)
        return y + self.common


def event_before_the_work(x):
    beside, done = lane(), torch.cuda.Event()
    with torch.cuda.stream(beside):
        done.record()
        y = x.sin()
    torch.cuda.current_stream().wait_event(done)
    z = y.relu()  # expect: GS619
    join(beside)
    return z


def event_after_the_work(x):
    beside, done = lane(), torch.cuda.Event()
    with torch.cuda.stream(beside):
        y = x.sin()
        done.record()
        other = x.cos()
    torch.cuda.current_stream().wait_event(done)
    z = y.relu()
    join(beside)
    return z + other


class Scratch:
    def __init__(self):
        self.both = torch.zeros(8, 64, device=DEVICE)

    def one_row_for_all(self):
        lanes = [lane(), lane()]
        for stream in lanes:
            with torch.cuda.stream(stream):
                self.both[0].add_(1)  # expect: GS619
        join(*lanes)
        return self.both * 2

    def own_columns(self):
        lanes = [lane(), lane()]
        for number, stream in enumerate(lanes):
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.both[:, number::2].add_(1)
        join(*lanes)
        return self.both * 2

    def only_the_shape(self):
        beside = lane()
        with torch.cuda.stream(beside):
            self.both.add_(1)
        ones = torch.ones_like(self.both)
        join(beside)
        return self.both + ones


class Offload:
    """A copy stream loads each layer's weight into one of two slots."""

    def __init__(self, waits):
        self.host = [torch.randn(16, 16).pin_memory() for _ in range(6)]
        self.slots = [torch.empty(16, 16, device=DEVICE) for _ in range(2)]
        self.waits = waits

    def run(self, x):
        copies = lane()
        free = [torch.cuda.Event() for _ in range(2)]
        for number, weight in enumerate(self.host):
            at, loaded = number % 2, torch.cuda.Event()
            with torch.cuda.stream(copies):
                if self.waits:
                    free[at].wait()
                self.slots[at].copy_(weight, non_blocking=True)  # expect: GS619
                loaded.record()
            loaded.wait()
            x = torch.tanh(x @ self.slots[at])
            free[at].record()
        return x


class Train:
    """Autograd runs a backward pass on the stream of the forward pass, and waits for it."""

    def __init__(self):
        self.layer = nn.Linear(16, 16).to(DEVICE)
        self.x = torch.randn(4, 16, device=DEVICE)
        for weight in self.layer.parameters():
            weight.grad = torch.zeros_like(weight)

    def step(self):
        beside = lane()
        with torch.cuda.stream(beside):
            loss = self.layer(self.x).sigmoid().square().mean()
        loss.backward()
        join(beside)

    def zero_too_late(self):
        beside = lane()
        with torch.cuda.stream(beside):
            self.layer.weight.grad.zero_()
        self.layer(self.x).sum().backward()  # expect: GS619
        join(beside)


def reduced(x, late):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    if late:
        z = y + 1  # expect: GS619
        work.wait()
        return z
    work.wait()
    return y + 1


def gathered(x, parts):
    y = x * 2
    work = dist.all_gather(parts, y, async_op=True)
    z = y + 1  # both only read it
    work.wait()
    return z + parts[0]


def main():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.randn(2, 4, 16, device=DEVICE)
    row, parts = torch.randn(4, 16, device=DEVICE), [torch.zeros(2, 4, 16, device=DEVICE)]
    mixture, scratch, train = Mixture().to(DEVICE), Scratch(), Train()
    with torch.no_grad():
        run(lambda: mixture.late(x))
        run(lambda: mixture.joined(x))
        run(lambda: event_before_the_work(x))
        run(lambda: event_after_the_work(x))
        run(scratch.one_row_for_all)
        run(scratch.own_columns)
        run(scratch.only_the_shape)
        unsafe, safe = Offload(waits=False), Offload(waits=True)
        run(lambda: unsafe.run(row))
        run(lambda: safe.run(row))
        run(lambda: reduced(x, late=True))
        run(lambda: reduced(x, late=False))
        run(lambda: gathered(x, parts))
    run(train.step)
    run(train.zero_too_late)
    print("done")


main()
