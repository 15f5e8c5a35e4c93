"""Results that are kept without a named container, or in one that the watch cannot follow. Sound code stands beside."""

import queue

import torch

DEVICE = "cuda"
X = torch.zeros(4, device=DEVICE)


class Model:
    def __init__(self):
        X + 1
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = X + 1

    def __call__(self, number):
        X.fill_(number)
        self.graph.replay()
        return self.out


def listed():
    run = Model()
    return torch.stack([run(number) for number in range(5)])  # expect: GS706


def by_number():
    run = Model()
    return {
        number: run(number)[:2]  # expect: GS706
        for number in range(5)
    }


def paired():
    run = Model()
    return [(number, run(number)) for number in range(5)]  # expect: GS706


def mapped():
    run = Model()
    return list(map(run, range(5)))  # expect: GS706


def generated():
    run = Model()
    return tuple(run(number) for number in range(5))  # expect: GS706


def copied():
    run = Model()
    return [run(number).clone() for number in range(5)], {number: run(number).sum() for number in range(5)}


def used_up():
    run = Model()
    return [float(run(number).sum()) for number in range(5)], sum(run(number) * 1 for number in range(5))


class Unlisted(Model):
    """The queue keeps the results, not the list, whose items are numbers."""

    kept = queue.Queue()

    def __call__(self, number):
        X.fill_(number)
        self.graph.replay()  # expect: GS706
        self.kept.put(self.out)
        return number


def queued():
    run = Unlisted()
    return [run(number) for number in range(5)]


for part in (listed, by_number, paired, mapped, generated, copied, used_up, queued):
    part()
print("done")
