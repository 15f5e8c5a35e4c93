"""Two client threads share one graphed model behind a lock; each thread has its own stream."""
import threading

import torch

DEV = torch.device("cuda")
ROWS, DIM, ROUNDS = 128, 384, 10


class Shared:
    def __init__(self):
        gen = torch.Generator().manual_seed(5)
        self.w = [(torch.randn(DIM, DIM, generator=gen) / DIM ** 0.5).to(DEV) for _ in range(5)]
        self.x = torch.zeros(ROWS, DIM, device=DEV)
        self.lock = threading.Lock()
        self.last = torch.cuda.Event()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward()
        self.last.record()

    def forward(self):
        h = self.x
        for w in self.w:
            h = torch.relu(h @ w)
        return h

    def infer(self, batch):
        with self.lock:
            torch.cuda.current_stream().wait_event(self.last)
            self.x.copy_(batch)
            self.graph.replay()
            result = self.y.clone()
            self.last.record()
        return result


def client(shared, batches, barrier, results, index):
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        total = torch.zeros((), device=DEV)
        for batch in batches:
            barrier.wait()
            total += shared.infer(batch).mean()
        results[index] = total


def main():
    with torch.no_grad():
        shared = Shared()
    gen = torch.Generator().manual_seed(6)
    work = [[torch.randn(ROWS, DIM, generator=gen).to(DEV) for _ in range(ROUNDS)] for _ in range(2)]
    torch.cuda.synchronize()
    barrier = threading.Barrier(2)
    results = [None, None]
    threads = [
        threading.Thread(target=client, args=(shared, work[i], barrier, results, i)) for i in range(2)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.cuda.synchronize()
    print(round(sum(float(r) for r in results), 4))


main()
