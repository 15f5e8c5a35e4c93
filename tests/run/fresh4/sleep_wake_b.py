"""RLHF style colocation: the rollout engine sleeps while the trainer uses the memory."""
import torch
from torch import nn

WIDTH, BUCKETS = 128, (1, 4, 8)


class Rollout:
    def __init__(self, device):
        self.device = device
        self.net = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 32)
        ).to(device)
        self.net.requires_grad_(False)
        self.host = {}
        self.x = torch.zeros(max(BUCKETS), WIDTH, device=device)
        self.graphs = {}
        self.capture_all()

    @torch.no_grad()
    def capture_all(self):
        pool = torch.cuda.graph_pool_handle()
        for size in sorted(BUCKETS, reverse=True):
            warm = torch.cuda.Stream()
            warm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm):
                for _ in range(2):
                    self.net(self.x[:size])
            torch.cuda.current_stream().wait_stream(warm)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = self.net(self.x[:size])
            self.graphs[size] = (graph, out)

    def sleep(self):
        self.graphs.clear()
        for name, p in self.net.named_parameters():
            self.host[name] = p.detach().cpu()
            p.untyped_storage().resize_(0)

    def wake(self):
        for name, p in self.net.named_parameters():
            saved = self.host.pop(name)
            p.untyped_storage().resize_(saved.numel() * saved.element_size())
            p.data.copy_(saved)
        self.capture_all()

    def generate(self, x):
        n = x.shape[0]
        size = min(b for b in BUCKETS if b >= n)
        graph, out = self.graphs[size]
        self.x[:n].copy_(x)
        self.x[n:size].zero_()
        graph.replay()
        return out[:n].softmax(-1)


class Trainer:
    """Adam moments that come to life while the rollout engine is asleep."""

    def __init__(self, device):
        self.device = device
        self.moments = []

    def update(self, host_params):
        if not self.moments:
            for value in host_params.values():
                self.moments.append(torch.zeros(value.shape, device=self.device))
                self.moments.append(torch.zeros(value.shape, device=self.device))
        for m in self.moments:
            m.mul_(0.9).add_(0.01)
        for value in host_params.values():
            value.add_(0.001)


def main():
    device = torch.device("cuda")
    torch.manual_seed(1)
    rollout, trainer = Rollout(device), Trainer(device)
    reward = torch.zeros((), device=device)
    for epoch in range(3):
        for i in range(12):
            probs = rollout.generate(torch.randn(1 + i % 8, WIDTH, device=device))
            reward += probs.amax(-1).mean()
        if epoch < 2:
            rollout.sleep()
            trainer.update(rollout.host)
            rollout.wake()
    print(f"reward {reward.item():.4f}")


if __name__ == "__main__":
    main()
