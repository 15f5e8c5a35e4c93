"""Tasks and threads that share a graph and wait between replay and read. Sound code stands beside each fault."""

import asyncio
import threading

import torch

DEVICE = "cuda"


class Model:
    def __init__(self):
        self.x = torch.zeros(8, device=DEVICE)
        self.kept = torch.zeros(8, device=DEVICE)
        self.out = self.x * 2
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x * 2
            self.kept.copy_(self.out + 1)
        self.lock = asyncio.Lock()

    def launch(self, x):
        self.x.copy_(x)
        self.graph.replay()

    async def done(self):
        for _ in range(3):
            await asyncio.sleep(0)

    async def classify(self, x):
        self.launch(x)
        await self.done()
        return self.out.argmax()  # expect: GS706

    async def give(self, x):
        with torch.no_grad():
            self.launch(x)
        await self.done()
        return self.out  # expect: GS706

    async def taken(self, x):
        self.launch(x)
        best = self.out.argmax()
        await self.done()
        assert self.out.shape == x.shape
        return best

    async def locked(self, x):
        async with self.lock:
            self.launch(x)
            await self.done()
            return self.out.clone()

    async def poll(self, x, ready):
        try:
            self.launch(x)
            while not ready():
                await asyncio.sleep(0)
            if self.kept.sum() > 3:  # expect: GS706
                return True
        finally:
            await asyncio.sleep(0)

    async def again(self, x):
        self.launch(x)
        await self.done()
        self.launch(x + 1)
        return self.out.clone()

    async def only_shown(self, x):
        self.launch(x)
        await self.done()
        return self.out

    async def maybe(self, x, number):
        """The wait of a turn without a replay is followed by a read of the last result, which is meant."""
        for turn in range(4):
            if turn == number:
                self.launch(x)
                best = self.out.argmax()
            await self.done()
            self.last = (best if turn == number else 0) + self.out.sum()


async def launch_and_wait(model, x):
    model.launch(x)
    await model.done()


async def caller(model, x):
    await launch_and_wait(model, x)
    return model.out.sum()  # expect: GS706


async def using(model, x):
    return (await model.give(x)).sum()


async def ignoring(model, x):
    await model.only_shown(x)


def ready_after(turns):
    counts = iter(range(100))
    return lambda: next(counts) >= turns


async def together(make, model):
    await asyncio.gather(*(make(model, torch.full((8,), float(n), device=DEVICE), n) for n in range(4)))


def in_threads(function, model):
    """Two threads, of which the second replays while the first waits, if the function waits."""
    began, second = threading.Event(), threading.Event()
    first = threading.Thread(target=function, args=(model, began, second))
    first.start()
    assert began.wait(20)
    model.launch(torch.ones(8, device=DEVICE))
    second.set()
    first.join()


def read_late(model, began, second):
    model.launch(torch.zeros(8, device=DEVICE))
    began.set()
    assert second.wait(20)
    total = model.out.sum()  # expect: GS706
    assert total is not None


def read_early(model, began, second):
    model.launch(torch.zeros(8, device=DEVICE))
    total = model.out.sum()
    began.set()
    assert second.wait(20)
    assert total is not None


WAYS = (
    lambda model, x, _: model.classify(x),
    lambda model, x, _: using(model, x),
    lambda model, x, n: model.poll(x, ready_after(5 - n)),
    lambda model, x, _: caller(model, x),
    lambda model, x, _: model.taken(x),
    lambda model, x, _: model.locked(x),
    lambda model, x, _: model.again(x),
    lambda model, x, _: ignoring(model, x),
    lambda model, x, n: model.maybe(x, n),
    lambda _, x, n: OWN[n].classify(x),
)
MODELS = [Model() for _ in WAYS]
OWN = [Model() for _ in range(4)]
THREADED = Model(), Model()


def main():
    for make, model in zip(WAYS, MODELS, strict=True):
        asyncio.run(together(make, model))
    for function, model in zip((read_late, read_early), THREADED, strict=True):
        in_threads(function, model)
    print("done")


main()
