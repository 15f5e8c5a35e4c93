"""Frames come from a reader thread, which also uploads them while the last one is being detected."""

import queue
import threading

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


class Reader(threading.Thread):
    """Decodes frames on the host and puts each into the detector's static input."""

    def __init__(self, station, count):
        super().__init__(daemon=True)
        self.station = station
        self.count = count
        self.ready = queue.Queue(maxsize=1)
        self.stream = torch.cuda.Stream()

    def decode(self, number):
        rows = np.random.default_rng(number)
        return torch.from_numpy(rows.integers(0, 255, (1, 3, HEIGHT, WIDTH)).astype(np.float32))

    def run(self):
        for number in range(self.count):
            frame = self.decode(number).pin_memory()
            with torch.cuda.stream(self.stream):
                self.station.frame.copy_(frame, non_blocking=True)
            if number % 8 == 0:
                self.station.set_exposure(1.0 + number / 50)
            self.ready.put(number)
        self.ready.put(None)


class Station:
    def __init__(self):
        self.model = Detector().cuda().eval().requires_grad_(False)
        self.frame = torch.zeros(1, 3, HEIGHT, WIDTH, device="cuda")
        self.exposure = torch.ones(1, device="cuda")

    def set_exposure(self, value):
        self.exposure = torch.full((1,), value, device="cuda")

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

    def watch(self, reader):
        seen = {}
        while (number := reader.ready.get()) is not None:
            self.graph.replay()
            seen[number] = self.found.cpu()
        return seen


def main():
    torch.manual_seed(2)
    station = Station()
    station.capture()
    reader = Reader(station, 32)
    reader.start()
    seen = station.watch(reader)
    reader.join()
    print(len(seen), "frames")


if __name__ == "__main__":
    main()
