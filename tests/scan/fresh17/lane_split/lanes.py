"""Small helper around a second stream of one device."""
import contextlib

import torch


class Lane:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()

    @contextlib.contextmanager
    def fork(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield self
            self.done.record(self.stream)

    def join(self):
        torch.cuda.current_stream().wait_event(self.done)
