"""Request threads write feature rows into pinned pages; one thread owns the GPU, uploads and replays."""

import queue
import threading
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

CLIENTS, EACH, ROWS, WIDTH, PAGES = 3, 30, 64, 384, 2


@dataclass
class Page:
    memory: torch.Tensor
    owner: int = -1
    number: int = -1
    taken: torch.cuda.Event | None = None


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(16))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x).squeeze(-1)


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.model = Scorer().to(device).eval()
        self.x = torch.zeros(ROWS, WIDTH, device=device)
        self.free: queue.Queue[Page] = queue.Queue()
        self.work: queue.Queue[Page | None] = queue.Queue()
        for _ in range(PAGES):
            self.free.put(Page(torch.zeros(ROWS, WIDTH).pin_memory()))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            self.model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.scores = self.model(self.x)
        self.answers: dict[tuple[int, int], torch.Tensor] = {}

    def serve(self) -> None:
        while (page := self.work.get()) is not None:
            self.x.copy_(page.memory, non_blocking=True)
            ticket = (page.owner, page.number)
            page.taken = torch.cuda.Event()
            page.taken.record()
            self.free.put(page)
            self.graph.replay()
            self.answers[ticket] = self.scores.clone()


def client(engine: Engine, owner: int) -> None:
    draw = np.random.default_rng(owner)
    rows = draw.normal(size=(EACH, ROWS, WIDTH)).astype(np.float32)
    for number in range(EACH):
        page = engine.free.get()
        if page.taken is not None:
            page.taken.synchronize()
        page.memory.numpy()[:] = rows[number]
        page.owner, page.number = owner, number
        engine.work.put(page)


def main() -> None:
    torch.manual_seed(6)
    engine = Engine(torch.device("cuda"))
    server = threading.Thread(target=engine.serve, name="gpu")
    clients = [threading.Thread(target=client, args=(engine, owner)) for owner in range(CLIENTS)]
    server.start()
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    engine.work.put(None)
    server.join()
    torch.cuda.synchronize()
    means = [engine.answers[0, number].mean() for number in range(EACH)]
    print(len(engine.answers), "answers, client 0:", f"{torch.stack(means).mean().item():+.6f}")


if __name__ == "__main__":
    main()
