"""Two-stage recommender: feature tower on one stream, ranker on another, one graph each."""
import torch
from torch import nn

USERS, DIM, BATCHES = 64, 128, 40


class Stage:
    def __init__(self, fn, x):
        self.x = x
        self.stream = torch.cuda.Stream()
        self.done = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                fn(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = fn(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.done.record()

    def run(self):
        self.graph.replay()


def serve(tower, ranker, batches, total):
    tower.stream.wait_stream(torch.cuda.current_stream())
    ranker.stream.wait_stream(torch.cuda.current_stream())
    for batch in batches:
        with torch.cuda.stream(tower.stream):
            tower.stream.wait_event(ranker.done)
            tower.x.copy_(batch)
            tower.run()
            tower.done.record(tower.stream)
        with torch.cuda.stream(ranker.stream):
            ranker.stream.wait_event(tower.done)
            ranker.run()
            total.add_(ranker.y)
            ranker.done.record(ranker.stream)
    torch.cuda.current_stream().wait_stream(ranker.stream)


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(24)
    embed = nn.Sequential(nn.Linear(DIM, 512), nn.ReLU(), nn.Linear(512, DIM)).to(device)
    rank = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    x = torch.zeros(USERS, DIM, device=device)
    tower = Stage(embed, x)
    ranker = Stage(rank, tower.y)
    batches = torch.randn(BATCHES, USERS, DIM, device=device)
    total = torch.zeros(USERS, 1, device=device)
    serve(tower, ranker, batches, total)
    best = total.argmax().item()
    print(f"best user {best}, score {total[best].item():.4f}")


if __name__ == "__main__":
    main()
