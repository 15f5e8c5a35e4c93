"""Two feature towers run side by side on two streams, each from its own graph."""
from contextlib import contextmanager

import torch

device = torch.device("cuda")
ROWS, COLS, DEPTH, FRAMES = 256, 1024, 60, 12


def audio_tower(x):
    h = x
    for _ in range(DEPTH):
        h = torch.sin(h * 1.3 + 0.1) + 0.5 * torch.cos(h)
    return h.mean(dim=1)


def video_tower(x):
    h = x - 0.5
    for _ in range(DEPTH):
        h = torch.cos(h * 1.1 - 0.2) - 0.5 * torch.sin(h)
    return h.mean(dim=1)


class Tower:
    def __init__(self, fn, pool):
        self.x = torch.zeros(ROWS, COLS, device=device)
        self.stream = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                fn(self.x)
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph, pool=pool):
            self.y = fn(self.x)

    def launch(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()


@contextmanager
def side_by_side(*towers):
    """Opens the towers' streams after the caller's work and joins them at the end."""
    main = torch.cuda.current_stream()
    for tower in towers:
        tower.stream.wait_stream(main)
    yield towers
    for tower in towers:
        main.wait_stream(tower.stream)


class Pipeline:
    def __init__(self):
        pool = torch.cuda.graph_pool_handle()
        self.audio = Tower(audio_tower, pool)
        self.video = Tower(video_tower, pool)

    def __call__(self, a, v):
        self.audio.x.copy_(a)
        self.video.x.copy_(v)
        with side_by_side(self.audio, self.video) as towers:
            for tower in towers:
                tower.launch()
        return torch.stack([self.audio.y, self.video.y])


def main():
    torch.manual_seed(31)
    frames = [
        (torch.rand(ROWS, COLS).to(device), torch.rand(ROWS, COLS).to(device))
        for _ in range(FRAMES)
    ]
    pipe = Pipeline()
    got = torch.stack([pipe(a, v) for a, v in frames])
    want = torch.stack([torch.stack([audio_tower(a), video_tower(v)]) for a, v in frames])
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", round(float(got.sum()), 3))
    print("CHECK ok" if gap < 1e-4 else f"CHECK wrong: features differ by {gap:.4g}")


if __name__ == "__main__":
    main()
