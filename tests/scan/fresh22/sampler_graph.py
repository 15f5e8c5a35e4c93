import random
import torch
from torch import nn


class Sampler:
    def __init__(self, head, device):
        self.head = head
        self.h = torch.zeros(3, 16, device=device)
        self.temperature = 1.0
        self.greedy = False
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s), torch.no_grad():
            self.pick()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.token = self.pick()

    def pick(self):
        logits = self.head(self.h) / self.temperature
        if self.greedy:
            return logits.argmax(-1)
        jitter = random.uniform(0.9, 1.1)
        noise = torch.empty_like(logits).exponential_()
        return (torch.softmax(logits * jitter, -1) / noise).argmax(-1)

    def sample(self, h, temperature, greedy):
        self.temperature = temperature
        self.greedy = greedy
        self.h.copy_(h)
        self.graph.replay()
        return self.token.clone()


def main(device="cuda"):
    torch.manual_seed(12)
    sampler = Sampler(nn.Linear(16, 50).to(device), device)
    plan = [(1.0, False), (0.7, False), (0.7, True), (1.3, False)]
    for t, greedy in plan * 3:
        torch.cuda.manual_seed(42)
        token = sampler.sample(torch.randn(3, 16, device=device), t, greedy)
    print(token.shape)


if __name__ == "__main__":
    main()
