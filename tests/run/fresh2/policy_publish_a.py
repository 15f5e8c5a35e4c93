"""Policy server with merged LoRA weights; a publisher pushes new base weights through a hook."""
import torch

DEV = torch.device("cuda")
DIM, RANK, BATCH, SCALE = 80, 4, 10, 0.5


class Merged:
    def __init__(self, seed):
        gen = torch.Generator().manual_seed(seed)
        self.base = (torch.randn(DIM, DIM, generator=gen) / 9).to(DEV)
        self.a = (torch.randn(DIM, RANK, generator=gen) * 0.1).to(DEV)
        self.b = (torch.randn(RANK, DIM, generator=gen) * 0.1).to(DEV)
        self.weight = torch.empty(DIM, DIM, device=DEV)
        self.merge()

    def merge(self):
        torch.addmm(self.base, self.a, self.b, alpha=SCALE, out=self.weight)

    def __call__(self, x):
        return torch.tanh(x @ self.weight)


class Publisher:
    def __init__(self):
        self.hooks = []

    def publish(self, seed, layers):
        gen = torch.Generator().manual_seed(seed)
        new = [(torch.randn(DIM, DIM, generator=gen) / 9).to(DEV) for _ in range(layers)]
        for hook in self.hooks:
            hook(new)


class Server:
    def __init__(self):
        self.layers = [Merged(i) for i in range(3)]
        self.x = torch.zeros(BATCH, DIM, device=DEV)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward()

    def forward(self):
        h = self.x
        for layer in self.layers:
            h = layer(h)
        return h

    def on_new_weights(self, new):
        for layer, weight in zip(self.layers, new):
            layer.base.copy_(weight)

    def act(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y


@torch.no_grad()
def main():
    server, publisher = Server(), Publisher()
    publisher.hooks.append(server.on_new_weights)
    gen = torch.Generator(device=DEV).manual_seed(1)
    total = torch.zeros((), device=DEV)
    for step in range(24):
        if step in (8, 16):
            publisher.publish(step, 3)
        x = torch.randn(BATCH, DIM, device=DEV, generator=gen)
        total += server.act(x).pow(2).mean()
    print(round(float(total), 4))


main()
