"""Batch scheduler over a recurrent model, graphs by batch size, eager beyond."""
import logging
from collections import deque

import torch
import torch.nn as nn

log = logging.getLogger("bucket_server")
device = torch.device("cuda")
DIM = 48
MAX_RUNNING = 12
SIZES = (1, 2, 4, 8)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(2 * DIM, DIM)

    def forward(self, x, state, live):
        """One step; rows that are not live keep their state."""
        if x.shape[0] >= 8:  # enough rows to be worth packing
            rows = live.nonzero().squeeze(1)
            packed = torch.tanh(self.cell(torch.cat([x[rows], state[rows]], dim=1)))
            return state.index_copy(0, rows, packed)
        new = torch.tanh(self.cell(torch.cat([x, state], dim=1)))
        return torch.where(live[:, None], new, state)


class Runner:
    def __init__(self, model):
        self.model = model
        self.graphs = {}
        for n in SIZES:
            try:
                self.graphs[n] = self.capture(n)
            except RuntimeError as error:
                log.debug("size %d stays eager: %s", n, error)

    @torch.no_grad()
    def capture(self, n):
        x = torch.zeros(n, DIM, device=device)
        state = torch.zeros(n, DIM, device=device)
        live = torch.ones(n, dtype=torch.bool, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(x, state, live)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.model(x, state, live)
        return graph, x, state, live, out

    @torch.no_grad()
    def step(self, x, state, live):
        n = x.shape[0]
        size = next((s for s in sorted(self.graphs) if s >= n), None)
        if size is None:
            return self.model(x, state, live)
        graph, sx, ss, sl, out = self.graphs[size]
        sx[:n].copy_(x)
        ss[:n].copy_(state)
        sl[:n].copy_(live)
        if n < size:
            sl[n:].zero_()
        graph.replay()
        return out[:n].clone()


class Job:
    def __init__(self, rid, tokens):
        self.rid, self.tokens, self.at = rid, tokens, 0
        self.state = torch.zeros(DIM, device=device)

    @property
    def finished(self):
        return self.at >= self.tokens.shape[0]


def serve(runner, jobs):
    waiting, running = deque(jobs), []
    while waiting or running:
        while waiting and len(running) < MAX_RUNNING:
            running.append(waiting.popleft())
        x = torch.stack([job.tokens[job.at] for job in running])
        state = torch.stack([job.state for job in running])
        live = torch.ones(len(running), dtype=torch.bool, device=device)
        new = runner.step(x, state, live)
        for row, job in enumerate(running):
            job.state = new[row]
            job.at += 1
        running = [job for job in running if not job.finished]


@torch.no_grad()
def reference(model, tokens):
    state = torch.zeros(1, DIM, device=device)
    for row in tokens:
        state = torch.tanh(model.cell(torch.cat([row[None], state], dim=1)))
    return state[0]


def main():
    torch.manual_seed(71)
    model = Recurrent().to(device).eval()
    lengths = [6 + (5 * i) % 11 for i in range(36)] + [18, 21, 24, 27]
    streams = [torch.randn(n, DIM).to(device) for n in lengths]
    runner = Runner(model)
    jobs = [Job(i, tokens) for i, tokens in enumerate(streams)]
    serve(runner, jobs)
    got = torch.stack([job.state for job in jobs])
    want = torch.stack([reference(model, tokens) for tokens in streams])
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", round(float(got.sum()), 4))
    print("CHECK ok" if gap < 1e-4 else f"CHECK wrong: states differ by {gap:.4g}")


if __name__ == "__main__":
    main()
