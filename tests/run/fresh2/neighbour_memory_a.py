"""Neighbour memory: new users are enrolled while a graphed query scores against every row."""
import torch

DEV = torch.device("cuda")
DIM, QUERIES = 64, 4
START_ROWS, MAX_ROWS = 128, 512


class Memory:
    def __init__(self):
        rows = MAX_ROWS
        self.rows = torch.zeros(rows, DIM, device=DEV)
        self.used = 0

    def reserve(self, need):
        have = self.rows.shape[0]
        if need <= have:
            return
        raise MemoryError(f"{need} rows wanted, {have} held")

    def enroll(self, vectors):
        end = self.used + vectors.shape[0]
        self.reserve(end)
        self.rows[self.used:end].copy_(vectors)
        self.used = end


class Query:
    def __init__(self, memory):
        self.memory = memory
        self.q = torch.zeros(QUERIES, DIM, device=DEV)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.score()
            self.score()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.best = self.score()

    def score(self):
        return (self.q @ self.memory.rows.t()).amax(dim=1)

    def __call__(self, q):
        self.q.copy_(q)
        self.graph.replay()
        return self.best.clone()


@torch.no_grad()
def main():
    gen = torch.Generator(device=DEV).manual_seed(21)
    memory = Memory()
    memory.enroll(torch.randn(100, DIM, device=DEV, generator=gen))
    query = Query(memory)
    answers = []
    for tick in range(18):
        if tick % 6 == 5:
            memory.enroll(torch.randn(100, DIM, device=DEV, generator=gen) * 2)
        q = torch.randn(QUERIES, DIM, device=DEV, generator=gen)
        answers.append(query(q))
    print(round(float(torch.stack(answers).mean()), 4))


if __name__ == "__main__":
    main()
