"""Sound: wave equation steps in graphs kept by order and step size, with fields updated in place."""
import torch

CELLS = 256


class Wave:
    def __init__(self):
        self.now = torch.zeros(CELLS, device="cuda")
        self.before = torch.zeros(CELLS, device="cuda")
        self.source = torch.zeros(CELLS, device="cuda")
        self.graphs = {}

    def advance(self, order: int, dt: float):
        bend = self.now.roll(1) + self.now.roll(-1) - 2 * self.now
        if order == 4:
            far = self.now.roll(2) + self.now.roll(-2) - 2 * self.now
            bend = (4 * bend - far / 4) / 3
        after = 2 * self.now - self.before + dt * dt * (bend + self.source)
        self.before.copy_(self.now)
        self.now.copy_(after)

    def capture(self, order: int, dt: float):
        kept = (self.now.clone(), self.before.clone())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.advance(order, dt)
        torch.cuda.current_stream().wait_stream(side)
        self.now.copy_(kept[0])
        self.before.copy_(kept[1])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.advance(order, dt)
        return graph

    def step(self, source, order: int, dt: float):
        key = (order, dt)
        if key not in self.graphs:
            self.graphs[key] = self.capture(order, dt)
        self.source.copy_(source)
        self.graphs[key].replay()
        return self.now.clone()


def main():
    torch.manual_seed(5)
    wave = Wave()
    pulse = torch.zeros(CELLS, device="cuda")
    pulse[CELLS // 2 :].fill_(0.1)
    frames = []
    for order in (2, 4):
        for _ in range(20):
            frames.append(wave.step(pulse, order, 0.1))
            pulse = pulse * 0.9
    film = torch.stack(frames)
    torch.save(film.cpu(), "film.pt")


if __name__ == "__main__":
    main()
