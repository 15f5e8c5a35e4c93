"""Frames are uploaded on a stream of their own; events order each upload with the replays around it."""

import numpy as np
import torch
import torch.nn as nn

HEIGHT, WIDTH = 48, 64


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.boxes = nn.Conv2d(32, 5, 1)

    def forward(self, frame, exposure):
        cells = self.boxes(self.stem(frame / 255 * exposure)).flatten(2)
        score, place = cells[:, 4].topk(8)
        return torch.cat([cells[:, :4].gather(2, place.unsqueeze(1).expand(-1, 4, -1)), score.unsqueeze(1)], 1)


def decode(count):
    rows = np.random.default_rng(0)
    frames = rows.integers(0, 255, (count, 1, 3, HEIGHT, WIDTH)).astype(np.float32)
    return torch.from_numpy(frames).pin_memory()


class Uploader:
    """Owns the copy stream. `filled` says that a frame has come, `used` that it may be overwritten."""

    def __init__(self, frames, target):
        self.frames = frames
        self.target = target
        self.stream = torch.cuda.Stream()
        self.filled = torch.cuda.Event()
        self.used = torch.cuda.Event()

    def upload(self, number):
        self.stream.wait_event(self.used)
        with torch.cuda.stream(self.stream):
            self.target.copy_(self.frames[number], non_blocking=True)
            self.filled.record()


class Station:
    def __init__(self):
        self.model = Detector().cuda().eval().requires_grad_(False)
        self.frame = torch.zeros(1, 3, HEIGHT, WIDTH, device="cuda")
        self.exposure = torch.ones(1, device="cuda")

    def set_exposure(self, value):
        self.exposure.fill_(value)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.frame, self.exposure)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.found = self.model(self.frame, self.exposure)

    def watch(self, uploader):
        seen = []
        main = torch.cuda.current_stream()
        uploader.used.record(main)
        for number in range(len(uploader.frames)):
            uploader.upload(number)
            if number % 8 == 0:
                self.set_exposure(1.0 + number / 50)
            main.wait_event(uploader.filled)
            self.graph.replay()
            uploader.used.record(main)
            seen.append(self.found.clone())
        return torch.stack(seen)


def main():
    torch.manual_seed(2)
    station = Station()
    station.capture()
    seen = station.watch(Uploader(decode(32), station.frame))
    torch.save(seen, "seen.pt")


if __name__ == "__main__":
    main()
