import functools

import torch


class Recorded:
    """Calls `fn(*buffers)` from a graph; shorter inputs are padded with zeros."""

    def __init__(self, fn, *buffers, warmup=3):
        functools.update_wrapper(self, getattr(fn, "forward", fn))
        self.buffers = buffers
        self.graph = torch.cuda.CUDAGraph()
        lane = torch.cuda.Stream(buffers[0].device)
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            for _ in range(warmup):
                fn(*buffers)
        torch.cuda.current_stream().wait_stream(lane)
        with torch.cuda.graph(self.graph, stream=lane):
            self.results = fn(*buffers)

    def __call__(self, *tensors):
        for buffer, tensor in zip(self.buffers, tensors):
            n = tensor.shape[0]
            buffer[:n].copy_(tensor)
            buffer[n:].zero_()
        self.graph.replay()
        return self.results
