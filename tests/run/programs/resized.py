"""Storages that `resize_` gives other memory although graphs use them; each faulty line says so. Sound code stands
beside."""

import torch


class Engine:
    """A layer whose memory can be given away and taken back."""

    def __init__(self):
        self.layer = torch.nn.Linear(8, 8, device="cuda").requires_grad_(False)
        self.saved = self.layer.weight.cpu()
        self.x = torch.zeros(4, 8, device="cuda")
        self.capture()

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.layer(self.x)

    def take_back(self):
        self.layer.weight.untyped_storage().resize_(self.saved.nbytes)
        self.layer.weight.data.copy_(self.saved)


def given_away_and_taken_back():
    engine = Engine()
    engine.graph.replay()
    engine.layer.weight.untyped_storage().resize_(0)  # expect: GS711
    engine.take_back()
    engine.graph.replay()


def half_given_away():
    engine = Engine()
    engine.layer.weight.untyped_storage().resize_(64)  # expect: GS711
    engine.graph.replay()


def captured_again():
    engine = Engine()
    engine.graph.replay()
    engine.layer.weight.untyped_storage().resize_(0)
    engine.take_back()
    engine.capture()
    engine.graph.replay()


def captured_again_beside_the_old_graph():
    engine = Engine()
    old = engine.graph
    old.replay()
    engine.layer.weight.untyped_storage().resize_(0)
    engine.take_back()
    engine.capture()
    engine.graph.replay()
    return old


def given_away_at_the_end():
    engine = Engine()
    engine.graph.replay()
    engine.layer.weight.untyped_storage().resize_(0)


def of_no_graph():
    engine, other = Engine(), torch.ones(1000, device="cuda")
    other.untyped_storage().resize_(0)
    engine.graph.replay()


def gathered_in_the_capture():
    """The graph's own pool has the memory that it reads."""
    shard, whole = torch.ones(8, device="cuda"), torch.empty(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    whole.untyped_storage().resize_(0)
    with torch.cuda.graph(graph):
        whole.untyped_storage().resize_(256)
        whole.view(8, 8).copy_(shard)
        out = whole * 2
        whole.untyped_storage().resize_(0)
    graph.replay()
    whole.untyped_storage().resize_(256)
    whole.untyped_storage().resize_(0)
    graph.replay()
    return out


given_away_and_taken_back()
half_given_away()
captured_again()
captured_again_beside_the_old_graph()
given_away_at_the_end()
of_no_graph()
gathered_in_the_capture()
print("done")
