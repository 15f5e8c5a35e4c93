import torch
from torch import nn


class Averager:
    def __init__(self, live, shadow):
        self.live, self.shadow = list(live.parameters()), list(shadow.parameters())

    @torch.no_grad()
    def __call__(self, decay):
        torch._foreach_mul_(self.shadow, decay)
        torch._foreach_add_(self.shadow, self.live, alpha=1 - decay)


def main(device="cuda"):
    torch.manual_seed(14)
    live, shadow = nn.Linear(8, 4).to(device), nn.Linear(8, 4).to(device)
    shadow.load_state_dict(live.state_dict())
    x = torch.zeros(5, 8, device=device)
    avg = Averager(live, shadow)

    def step():
        with torch.no_grad():
            goal = shadow(x.flip(0))
        loss = (live(x) - goal - 1).square().mean()
        grads = torch.autograd.grad(loss, avg.live)
        with torch.no_grad():
            for p, g in zip(avg.live, grads):
                p.sub_(g, alpha=0.1)
        return loss.detach()

    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(s)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    total = torch.zeros((), device=device)
    for i in range(12):
        x.copy_(torch.randn(5, 8, device=device))
        graph.replay()
        total.add_(loss)
        avg(min(0.99, (1 + i) / (10 + i)))
    print(float(total) / 12)


if __name__ == "__main__":
    main()
