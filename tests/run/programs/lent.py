"""Tensors of a pool that one graph makes and another graph reads. Sound code stands beside each fault."""

from functools import partial

import torch

DEVICE = "cuda"
X = torch.ones(64, device=DEVICE)
TURNS = 4


def captured(step, pool):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        out = step()
    return graph, out


class Pair:
    """An encoder and a decoder, of which the decoder runs several times, and a scorer that is captured later."""

    def __init__(self):
        self.pool = torch.cuda.graph_pool_handle()
        self.total = torch.zeros(64, device=DEVICE)
        self.score = torch.zeros(64, device=DEVICE)

    def decode(self, memory):
        self.total.add_(memory + X)

    def judge(self):
        self.score.copy_((self.total * 2).relu())

    def capture_scorer(self, pool=None):
        self.scorer, _ = captured(self.judge, pool or self.pool)

    def run(self, *, again=False):
        for _ in range(TURNS):
            self.encoder.replay()
            self.decoder.replay()
            self.scorer.replay()
            if again:
                self.encoder.replay()
            self.decoder.replay()


class Returned(Pair):
    def __init__(self):
        super().__init__()
        self.capture()
        self.capture_scorer()

    def capture(self):
        self.encoder, memory = captured(lambda: X * 2, self.pool)  # expect: GS711
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)


class Deleted(Pair):
    def __init__(self):
        super().__init__()
        self.encoder, memory = captured(lambda: X * 3, self.pool)
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)
        del memory  # expect: GS711
        self.capture_scorer()


class Replaced(Pair):
    def __init__(self):
        super().__init__()
        self.encoder, self.memory = captured(lambda: X * 4, self.pool)
        self.decoder, _ = captured(lambda: self.decode(self.memory), self.pool)
        self.memory = torch.zeros(64, device=DEVICE)  # expect: GS711
        self.capture_scorer()


class Kept(Pair):
    def __init__(self):
        super().__init__()
        self.encoder, self.memory = captured(lambda: X * 5, self.pool)
        self.decoder, _ = captured(lambda: self.decode(self.memory), self.pool)
        self.capture_scorer()


class Again(Deleted):
    """The memory is made again before each use."""

    def __init__(self):
        Pair.__init__(self)
        self.encoder, memory = captured(lambda: X * 6, self.pool)
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)
        del memory
        self.capture_scorer()

    def run(self):
        super().run(again=True)


class Apart(Pair):
    def __init__(self):
        super().__init__()
        self.encoder, memory = captured(lambda: X * 7, self.pool)
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)
        del memory
        self.capture_scorer(torch.cuda.graph_pool_handle())


class Earlier(Pair):
    """Nothing is captured after the memory has been freed."""

    def __init__(self):
        super().__init__()
        self.encoder, memory = captured(lambda: X * 8, self.pool)
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)
        self.capture_scorer()
        del memory


class Scratch(Pair):
    """The decoder fills the memory itself before it reads it."""

    def __init__(self):
        super().__init__()
        self.encoder, memory = captured(lambda: X * 9, self.pool)
        self.decoder, _ = captured(partial(self.fill_and_decode, memory), self.pool)
        del memory
        self.capture_scorer()

    def fill_and_decode(self, memory):
        memory.copy_(X)
        self.decode(memory)


class WarmedUp(Deleted):
    """Only once, in a warm-up in reverse order, the memory is overwritten."""

    def __init__(self):
        Pair.__init__(self)
        self.encoder, memory = captured(lambda: X * 10, self.pool)
        self.decoder, _ = captured(partial(self.decode, memory), self.pool)
        del memory
        self.capture_scorer()
        for graph in (self.scorer, self.decoder, self.encoder):
            graph.replay()

    def run(self):
        for _ in range(TURNS):
            self.encoder.replay()
            self.decoder.replay()
            self.scorer.replay()


def main():
    for kind in (Returned, Deleted, Replaced, Kept, Again, Apart, Earlier, Scratch, WarmedUp):
        kind().run()
    print("done")


main()
