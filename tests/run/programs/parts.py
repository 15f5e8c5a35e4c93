"""Streams that use parts of one buffer without an order; each faulty line says so. Sound code stands beside."""

import torch


class Step:
    """A graph that scales its input."""

    def __init__(self, x):
        self.x, self.graph = x, torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x * 2

    def __call__(self):
        self.graph.replay()


def zeros(*shape):
    return torch.zeros(*shape, device="cuda")


def ring_of_rows(step):
    """Events order the uses of each row; different rows need no order."""
    ring, uploads = zeros(2, 4, 8), torch.cuda.Stream()
    full, free = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
    for turn in range(6):
        row = turn % 2
        with torch.cuda.stream(uploads):
            uploads.wait_event(free[row])
            ring[row].copy_(torch.full((4, 8), float(turn)))
            full[row].record()
        torch.cuda.current_stream().wait_event(full[row])
        step.x.copy_(ring[row])
        free[row].record()
        step()


def ring_with_an_event_too_early(step):
    """The row is called free before the copy reads it."""
    ring, uploads = zeros(2, 4, 8), torch.cuda.Stream()
    full, free = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
    for turn in range(6):
        row = turn % 2
        with torch.cuda.stream(uploads):
            uploads.wait_event(free[row])
            ring[row].fill_(turn)  # expect: GS714
            full[row].record()
        torch.cuda.current_stream().wait_event(full[row])
        free[row].record()
        step.x.copy_(ring[row])
        step()


def columns(step):
    """The columns lie between each other in memory."""
    ring, uploads = zeros(4, 2, 8), torch.cuda.Stream()
    uploads.wait_stream(torch.cuda.current_stream())
    for turn in range(6):
        with torch.cuda.stream(uploads):
            ring[:, 1].fill_(turn)
        step.x.copy_(ring[:, 0])
        step()


def columns_and_a_row(step):
    ring, uploads = zeros(4, 2, 8), torch.cuda.Stream()
    uploads.wait_stream(torch.cuda.current_stream())
    for turn in range(6):
        with torch.cuda.stream(uploads):
            ring[1].fill_(turn)  # expect: GS714
        step.x.copy_(ring[:, 0])
        step()


def a_graph_for_each_half():
    """While one graph runs, the input of the other one is filled."""
    both, uploads = zeros(4, 16), torch.cuda.Stream()
    steps = [Step(both[:, :8]), Step(both[:, 8:])]
    for turn in range(6):
        with torch.cuda.stream(uploads):
            steps[turn % 2].x.fill_(turn)
        filled = uploads.record_event()
        steps[1 - turn % 2]()
        uploads.wait_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_event(filled)


def a_graph_for_halves_that_overlap():
    both, uploads = zeros(4, 16), torch.cuda.Stream()
    steps = [Step(both[:, :9]), Step(both[:, 8:])]
    for turn in range(6):
        with torch.cuda.stream(uploads):
            steps[turn % 2].x.fill_(turn)  # expect: GS714
        filled = uploads.record_event()
        steps[1 - turn % 2]()
        uploads.wait_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_event(filled)


def written_by_a_graph():
    """One graph fills the last row while the other one reads the first rows."""
    both, side = zeros(4, 8), torch.cuda.Stream()
    reader, writer = Step(both[:3]), torch.cuda.CUDAGraph()
    with torch.cuda.graph(writer):
        both[3].fill_(2)
    for _ in range(3):
        reader()
        with torch.cuda.stream(side):
            writer.replay()


def written_by_a_graph_too_far():
    both, side = zeros(4, 8), torch.cuda.Stream()
    reader, writer = Step(both[:3]), torch.cuda.CUDAGraph()
    with torch.cuda.graph(writer):
        both[2:].fill_(2)
    for _ in range(3):
        reader()
        with torch.cuda.stream(side):
            writer.replay()  # expect: GS714


class Upload:
    """A graph that copies from pinned memory."""

    def __init__(self, pinned):
        self.x, self.done = zeros(4, 8), torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.x.copy_(pinned, non_blocking=True)
            self.out = self.x * 2

    def __call__(self):
        self.graph.replay()
        self.done.record()


def pinned_halves():
    """The host fills one half while a replay copies the other half."""
    both = torch.zeros(2, 4, 8, pin_memory=True)
    uploads = [Upload(both[0]), Upload(both[1])]
    for turn in range(1, 7):
        uploads[turn % 2].done.synchronize()
        both[turn % 2].fill_(turn)
        uploads[turn % 2]()


def pinned_halves_without_a_wait():
    both = torch.zeros(2, 4, 8, pin_memory=True)
    uploads = [Upload(both[0]), Upload(both[1])]
    for turn in range(1, 7):
        both[turn % 2].fill_(turn)  # expect: GS714
        uploads[turn % 2]()


def more_than_half_of_pinned_memory():
    both = torch.zeros(6, 8, pin_memory=True)
    uploads = [Upload(both[:4]), Upload(both[2:])]
    for turn in range(1, 7):
        uploads[turn % 2].done.synchronize()
        both[2 * (turn % 2) :][:4].fill_(turn)  # expect: GS714
        uploads[turn % 2]()


class Blocks:
    """Two pinned blocks that a method fills in turn."""

    def __init__(self, step):
        self.step, self.blocks = step, [torch.zeros(4, 8, pin_memory=True) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]

    def fill(self, turn):
        block = self.blocks[turn % 2]
        block.fill_(turn)  # expect: GS714
        return block

    def fill_later(self, turn):
        block = self.blocks[turn % 2]
        self.copied[turn % 2].synchronize()
        block.fill_(turn)
        return block

    def send(self, turn):
        self.upload(self.fill(turn), turn)

    def send_later(self, turn):
        self.upload(self.fill_later(turn), turn)

    def upload(self, block, turn):
        self.step.x.copy_(block, non_blocking=True)
        self.copied[turn % 2].record()
        self.step()


def filled_by_a_method(step):
    blocks = Blocks(step)
    for turn in range(1, 7):
        blocks.send(turn)


def filled_by_a_method_after_a_wait(step):
    blocks = Blocks(step)
    for turn in range(1, 7):
        blocks.send_later(turn)


def many_parts(step):
    """Each row is read on one stream and written once on another one, much later."""
    ring, uploads = zeros(40, 4, 8), torch.cuda.Stream()
    for turn in range(40):
        step.x.copy_(ring[turn])
        step()
    uploads.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(uploads):
        for turn in range(40):
            ring[turn].fill_(turn)


with torch.no_grad():
    torch.manual_seed(0)
    step = Step(zeros(4, 8))
    ring_of_rows(step)
    ring_with_an_event_too_early(step)
    columns(step)
    columns_and_a_row(step)
    a_graph_for_each_half()
    a_graph_for_halves_that_overlap()
    written_by_a_graph()
    written_by_a_graph_too_far()
    pinned_halves()
    pinned_halves_without_a_wait()
    more_than_half_of_pinned_memory()
    filled_by_a_method(step)
    filled_by_a_method_after_a_wait(step)
    many_parts(step)
print("done")
