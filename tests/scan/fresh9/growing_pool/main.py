"""Retrieval over a memory that grows while the graph stays."""

import torch


class Memory:
    def __init__(self, width, device, capacity=4):
        self.rows = torch.zeros(capacity, width, device=device)
        self.count = 0

    @property
    def capacity(self):
        return self.rows.shape[0]

    def reserve(self, wanted):
        if wanted <= self.capacity:
            return
        bigger = torch.zeros(2 * wanted, self.rows.shape[1], device=self.rows.device)
        bigger[: self.count] = self.rows[: self.count]
        self.rows = bigger

    def insert(self, vector):
        self.reserve(self.count + 1)
        self.rows[self.count].copy_(vector)
        self.count += 1


class Retriever:
    def __init__(self, memory, device):
        self.memory = memory
        self.query = torch.zeros(memory.rows.shape[1], device=device)
        self.graph = None
        self.best = None

    def lookup(self):
        scores = torch.softmax(self.memory.rows @ self.query, dim=0)
        return scores @ self.memory.rows

    def capture(self):
        stream = torch.cuda.Stream(self.query.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.lookup()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.best = self.lookup()

    def __call__(self, query):
        self.query.copy_(query)
        self.graph.replay()
        return self.best.clone()


def main():
    device = torch.device("cuda")
    memory = Memory(6, device)
    retriever = Retriever(memory, device)
    retriever.capture()
    found = []
    for _ in range(10):
        vector = torch.randn(6, device=device)
        memory.insert(vector)
        found.append(retriever(vector))
    print(len(found), memory.capacity)


if __name__ == "__main__":
    main()
