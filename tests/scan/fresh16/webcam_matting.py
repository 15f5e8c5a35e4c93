"""Cuts people out of the frames of a camera; the net carries a state from frame to frame."""

import threading
from queue import Queue

import torch
import torch.nn as nn

HEIGHT, WIDTH, CHANNELS = 24, 32, 8


class Matting(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.gate = nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, 3, padding=1)
        self.alpha = nn.Conv2d(CHANNELS, 1, 1)

    def forward(self, frame, state):
        keep, new = self.gate(torch.cat((self.down(frame).relu(), state), 1)).chunk(2, 1)
        state = torch.lerp(new.tanh(), state, keep.sigmoid())
        return self.alpha(state).sigmoid(), state


class Grabber(threading.Thread):
    """Stands for the driver of the camera: decodes each frame into one pinned block."""

    def __init__(self, count):
        super().__init__(daemon=True)
        self.block = torch.empty(1, 3, HEIGHT, WIDTH).pin_memory()
        self.count = count
        self.ready = Queue(maxsize=1)
        self.dice = torch.Generator().manual_seed(5)

    def run(self):
        for number in range(self.count):
            self.block.uniform_(0.0, 1.0, generator=self.dice)
            self.ready.put(number)
        self.ready.put(None)


class Cutter:
    def __init__(self):
        self.net = Matting().cuda().eval()
        self.frame = torch.zeros(1, 3, HEIGHT, WIDTH, device="cuda")
        self.state = torch.zeros(1, CHANNELS, HEIGHT, WIDTH, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net(self.frame, self.state)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.alpha, self.next_state = self.net(self.frame, self.state)

    def cut(self, block):
        self.frame.copy_(block, non_blocking=True)
        self.graph.replay()
        self.state = self.next_state
        return self.frame * self.alpha


@torch.no_grad()
def main():
    torch.manual_seed(3)
    cutter = Cutter()
    cutter.capture()
    grabber = Grabber(count=16)
    grabber.start()
    people, areas = [], []
    while grabber.ready.get() is not None:
        people.append(cutter.cut(grabber.block))
        areas.append(cutter.alpha[cutter.alpha > 0.5].mean())
    torch.save((torch.cat(people).cpu(), torch.stack(areas).cpu()), "people.pt")


if __name__ == "__main__":
    main()
