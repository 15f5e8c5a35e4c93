"""Work beside the main stream. Without CUDA all of it is done in order."""

import contextlib
import time

import torch


class Overlap:
    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.streams = {name: torch.cuda.Stream(device) if self.cuda else None for name in ("copy", "side")}
        self.ready = {"side": torch.cuda.Event()} if self.cuda else {}

    @contextlib.contextmanager
    def on(self, name):
        if self.cuda:
            self.streams[name].wait_stream(torch.cuda.current_stream())  # guilty: unjoined_side GS603
        with torch.cuda.stream(self.streams[name]):  # guilty: unjoined_side GS603
            yield

    def join(self, name):
        if self.cuda:
            torch.cuda.current_stream().wait_stream(self.streams[name])


class Forgotten(Overlap):
    def run(self, x):
        with self.on("side"):  # guilty: unjoined_side GS603
            squares = x * x  # guilty: unjoined_side GS603
        self.last = squares
        return x + 1


# quiet: joined_side
class Joined(Overlap):
    def run(self, x):
        with self.on("side"):
            squares = x * x
        doubled = x + x
        self.join("side")
        return squares + doubled


class Waiting(Overlap):
    def run(self, x):
        with self.on("copy"):
            y = x * 3
        if self.cuda:
            self.streams["copy"].synchronize()  # guilty: stream_wait GS105
        return y + 1


class Polling(Overlap):
    def finished(self):
        return self.ready["side"].query() if self.cuda else True  # guilty: polled_event GS105

    def run(self, x):
        y = x * 2
        for event in self.ready.values():
            event.record()
        return y if self.finished() else x * 2 + y * 0


# quiet: event_order
class Ordered(Overlap):
    def run(self, x):
        with self.on("side"):
            y = x * 2
            for event in self.ready.values():
                event.record()
        for event in self.ready.values():
            torch.cuda.current_stream().wait_event(event)
        return y + x


@contextlib.contextmanager
def timed(name, device, log):
    begun = torch.cuda.Event(enable_timing=True) if device.type == "cuda" else None
    if begun:
        begun.record()
    yield
    if begun:
        torch.cuda.synchronize(device)  # guilty: timed_block GS105
    log.append(name)


class Timed:
    def __init__(self):
        self.log = []

    def run(self, x):
        with timed("softmax", x.device, self.log):
            y = x.softmax(-1)
        return y


def legacy(x):
    """Does its work where the old kernels expect it."""
    home = torch.cuda.default_stream(x.device) if x.is_cuda else None
    if home:
        home.wait_stream(torch.cuda.current_stream())  # guilty: default_stream GS604
    with torch.cuda.stream(home):
        out = x * 5  # guilty: default_stream GS604
    if home:
        torch.cuda.current_stream().wait_stream(home)  # guilty: default_stream GS604
    return out + 1


class Tuned:
    """Measures its variants the first time that it sees a shape."""

    # quiet: tuned_variants
    def __init__(self, *variants):
        self.variants, self.best = variants, {}

    # quiet: tuned_variants
    def measure(self, variant, x):
        begun = time.perf_counter()
        variant(x)
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        return time.perf_counter() - begun

    # quiet: tuned_variants
    def run(self, x):
        if x.shape not in self.best:
            self.best[x.shape] = min(self.variants, key=lambda variant: self.measure(variant, x))
        return self.best[x.shape](x)


def doubled(x):
    return x * 2


def added(x):
    return x + x
