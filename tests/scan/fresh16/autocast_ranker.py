"""A ranker that learns online: scores come from a graph in half precision, updates from eager steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ITEMS, FEATURES, ROUNDS = 64, 18, 40


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, features):
        return self.net(features).squeeze(-1)


class OnlineRanker:
    def __init__(self):
        self.model = Ranker().cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.features = torch.zeros(ITEMS, FEATURES, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.previous = None
        self.same = 0

    def order(self):
        scores = self.model(self.features)
        return scores.float(), scores.topk(8)[1]

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.order()
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self.graph):
                self.scores, self.top = self.order()

    def rank(self, features):
        self.features.copy_(features)
        self.graph.replay()
        if self.previous is not None and torch.equal(self.previous, self.top):
            self.same += 1
        self.previous = self.top
        return self.scores.clone()

    def learn(self, features, clicks):
        self.opt.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(self.model(features), clicks).backward()
        self.opt.step()


def visits(count):
    taste = torch.randn(FEATURES, device="cuda")
    for _ in range(count):
        features = torch.randn(ITEMS, FEATURES, device="cuda")
        yield features, (torch.rand(ITEMS, device="cuda") < (features @ taste).sigmoid()).float()


def main():
    torch.manual_seed(3)
    ranker = OnlineRanker()
    ranker.capture()
    history = torch.empty(ROUNDS, ITEMS, device="cuda")
    for number, (features, clicks) in enumerate(visits(ROUNDS)):
        history[number].copy_(ranker.rank(features))
        ranker.learn(features, clicks)
    torch.save({"history": history.cpu(), "same": ranker.same}, "ranks.pt")


if __name__ == "__main__":
    main()
