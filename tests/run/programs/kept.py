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


class Sampler:
    """Its result is the buffer that the graph updates in place."""

    def __init__(self):
        self.x = torch.zeros(4, device=DEVICE)
        self.x.add_(1)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.x.add_(1)

    def __call__(self, number):
        self.x.fill_(number)
        for _ in range(3):
            self.graph.replay()
        return self.x


def sampled():
    sample, images = Sampler(), []
    for number in range(5):
        images.append(sample(number))  # expect: GS706
    return images


def sampled_by_number():
    sample, images = Sampler(), {}
    for number in range(5):
        image = sample(number)
        images[number] = image[:2]  # expect: GS706
    return images


def sampled_in_a_list():
    sample = Sampler()
    return [sample(number) for number in range(5)]  # expect: GS706


def sampled_copies():
    sample, images = Sampler(), []
    for number in range(5):
        images.append(sample(number).clone())
    return images, [sample(number).clone() for number in range(5)]


def requested():
    """Each request names the buffer that will have its result."""
    sample, requests, totals = Sampler(), [], []
    for number in range(5):
        requests.append((number, sample.x))
        totals.append((sample.x, sample(number).sum()))
    return requests, totals


class Rows:
    """Each replay updates one row of a buffer."""

    def __init__(self):
        self.rows = torch.zeros(5, 4, device=DEVICE)
        self.at = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.rows.index_fill_(0, self.at, 1.0)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.rows.index_fill_(0, self.at, 1.0)

    def __call__(self, number):
        self.at.fill_(number)
        self.graph.replay()
        return self.rows[number]


def in_rows():
    write, rows = Rows(), []
    for number in range(5):
        rows.append(write(number))
    return rows, [write(number) for number in range(5)]


for part in (sampled, sampled_by_number, sampled_in_a_list, sampled_copies, requested, in_rows):
    part()
for part in (listed, by_number, paired, mapped, generated, copied, used_up, queued):
    part()
print("done")
