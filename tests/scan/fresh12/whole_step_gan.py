"""A whole training step of a small GAN in one graph, with an update of its inputs on a copy stream."""
import torch
import torch.nn as nn

BATCH, LATENT, DIM = 64, 16, 32


class Gan:
    def __init__(self):
        self.gen = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, DIM)).cuda()
        self.dis = nn.Sequential(nn.Linear(DIM, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).cuda()
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=2e-4, capturable=True)
        self.opt_d = torch.optim.Adam(self.dis.parameters(), lr=2e-4)
        self.real = torch.zeros(BATCH, DIM, device="cuda")

    def step(self):
        noise = torch.randn(BATCH, LATENT, device="cuda")
        fake = self.gen(noise)
        self.opt_d.zero_grad(set_to_none=True)
        gap = self.dis(fake.detach()).mean() - self.dis(self.real).mean()
        gap.backward()
        self.opt_d.step()
        self.opt_g.zero_grad(set_to_none=True)
        loss = -self.dis(fake).mean()
        loss.backward()
        self.opt_g.step()
        return gap.detach(), loss.detach()


def main():
    torch.manual_seed(0)
    gan = Gan()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            gan.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gap, loss = gan.step()
    copier = torch.cuda.Stream()
    history = []
    for _ in range(100):
        batch = torch.randn(BATCH, DIM).pin_memory()
        with torch.cuda.stream(copier):
            gan.real.copy_(batch, non_blocking=True)
        graph.replay()
        history.append(gap)
    print(torch.stack(history).mean().item())


if __name__ == "__main__":
    main()
