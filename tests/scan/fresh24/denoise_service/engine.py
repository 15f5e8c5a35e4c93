from dataclasses import dataclass

import torch

from denoise_service.buffers import Incoming, Outgoing
from denoise_service.model import CallState


@dataclass
class Entry:
    rows: int
    graph: torch.cuda.CUDAGraph
    audio: torch.Tensor
    slots: torch.Tensor
    floor: torch.Tensor
    out: torch.Tensor


class Engine:
    SIZES = (1, 2, 4, 8)

    def __init__(self, model, calls, hidden, device):
        self.model, self.device = model, device
        self.state = CallState(calls, model.hop, hidden, device)
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {n: self._record(n) for n in sorted(self.SIZES, reverse=True)}
        largest = max(self.SIZES)
        self.outgoing = [Outgoing(largest, model.hop) for _ in range(2)]
        self.incoming = [Incoming(largest, model.hop) for _ in range(2)]
        self.steps = 0

    @torch.inference_mode()
    def _record(self, rows):
        audio = torch.zeros(rows, self.model.hop, device=self.device)
        slots = torch.full((rows,), self.state.scratch, device=self.device)
        floor = torch.ones(rows, device=self.device)
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.model(audio, slots, floor, self.state)
        current.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            out = self.model(audio, slots, floor, self.state)
        return Entry(rows, graph, audio, slots, floor, out)

    @torch.inference_mode()
    def submit(self, packets):
        turn = self.steps % 2
        self.steps += 1
        entry = self.entries[next(n for n in self.SIZES if n >= len(packets))]
        self.outgoing[turn].write(packets, entry.rows, self.state.scratch)
        self.outgoing[turn].send(entry)
        entry.graph.replay()
        self.incoming[turn].receive(entry.out, len(packets))
        return self.incoming[turn]

    @torch.inference_mode()
    def open_call(self, slot):
        self.state.open(slot)
