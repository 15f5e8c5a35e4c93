"""Detects motion in frames that a camera thread delivers as arrays."""

from __future__ import annotations

import queue
import threading

import numpy as np
import torch
import torch.nn.functional as F


class FakeCamera(threading.Thread):
    def __init__(self, frames: int, height: int, width: int):
        super().__init__(daemon=True)
        self.frames, self.shape = frames, (height, width)
        self.ready: queue.Queue[np.ndarray | None] = queue.Queue(maxsize=4)

    def run(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(self.frames):
            self.ready.put(rng.integers(0, 255, self.shape, dtype=np.uint8))
        self.ready.put(None)

    def __iter__(self):
        while (frame := self.ready.get()) is not None:
            yield frame


class MotionDetector:
    def __init__(self, height: int, width: int, device, decay: float = 0.9):
        self.decay = decay
        self.device = device
        self.frame = torch.zeros(height, width, dtype=torch.uint8, device=device)
        self.background = torch.zeros(height, width, device=device)
        self.heat = torch.zeros(height // 4, width // 4, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._record()

    def _detect(self) -> None:
        current = self.frame.float() / 255
        moved = (current - self.background).abs()
        self.background.lerp_(current, 1 - self.decay)
        pooled = F.avg_pool2d(moved[None, None], 4).squeeze()
        torch.maximum(self.heat * self.decay, pooled, out=self.heat)

    def _record(self) -> None:
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._detect()
        here.wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._detect()
        self.background.zero_()
        self.heat.zero_()

    def feed(self, frame: np.ndarray) -> None:
        self.frame.copy_(torch.from_numpy(frame))
        self.graph.replay()

    def follow(self, camera) -> torch.Tensor:
        for frame in camera:
            self.feed(frame)
        return self.heat.clone()


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    camera = FakeCamera(30, 32, 48)
    camera.start()
    detector = MotionDetector(32, 48, device)
    heat = detector.follow(camera)
    print("hottest cell", int(heat.argmax()))


if __name__ == "__main__":
    main()
