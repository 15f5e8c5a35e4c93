from __future__ import annotations

import threading
import time

import torch

from .batching import Batcher, StaticBatch
from .model import Encoder


class EmbeddingServer:
    """Micro-batches requests and answers each with its row of the embeddings."""

    def __init__(self, encoder: Encoder, rows=32, length=256, device="cuda"):
        self.encoder = encoder.to(device).eval().requires_grad_(False)
        self.batch = StaticBatch(rows, length, device)
        self.batcher = Batcher(rows)
        self.busy = 0.0
        self.graph = torch.cuda.CUDAGraph()
        self.out = self._capture()
        self._stop = threading.Event()

    def _capture(self) -> torch.Tensor:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.encoder(self.batch.ids, self.batch.mask)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            return self.encoder(self.batch.ids, self.batch.mask)

    def submit(self, ids: list[int]):
        return self.batcher.put(ids)

    def serve(self) -> None:
        while not self._stop.is_set():
            self.serve_once()

    def serve_once(self) -> None:
        jobs = self.batcher.take()
        began = time.perf_counter()
        self.batch.fill(jobs)
        self.graph.replay()
        torch.cuda.synchronize()
        self.busy += time.perf_counter() - began
        for row, job in enumerate(jobs):
            job.future.set_result(self.out[row])

    def stop(self) -> None:
        self._stop.set()
