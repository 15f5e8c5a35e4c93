import contextlib

import torch


class ChunkFeeder:
    """Moves pinned chunks to the device beside the compute stream."""

    def __init__(self, shape, device):
        self.device = device
        self.slot = torch.zeros(shape, device=device)
        self.lane = torch.cuda.Stream(device)

    @contextlib.contextmanager
    def transfer(self):
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lane):
            yield self.slot

    def feed(self, chunk: torch.Tensor) -> None:
        with self.transfer() as slot:
            slot.copy_(chunk, non_blocking=True)


class StreamingSession:
    def __init__(self, encoder, feeder: ChunkFeeder):
        self.encoder = encoder
        self.feeder = feeder
        self.graph = None
        self.posteriors = None

    @torch.inference_mode()
    def prepare(self):
        stream = torch.cuda.Stream(self.feeder.device)
        stream.wait_stream(torch.cuda.current_stream(self.feeder.device))
        with torch.cuda.stream(stream):
            self.encoder(self.feeder.slot)
        torch.cuda.current_stream(self.feeder.device).wait_stream(stream)
        self.encoder.context.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.posteriors = self.encoder(self.feeder.slot)

    @torch.inference_mode()
    def push(self, chunk: torch.Tensor) -> torch.Tensor:
        self.feeder.feed(chunk)
        self.graph.replay()
        return self.posteriors.clone()
