"""Video stabilisation: four slots, each with its own graphs and output, so that two frames can be held at once."""

from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

SIDE, SLOTS, FRAMES = 32, 4, 48


class Features(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(self.convs(frame), 2)


class Slot:
    """The memory of one frame on its way: pinned page, frame, features, and the events between the streams."""

    def __init__(self, net: Features, work: torch.cuda.Stream, device: torch.device) -> None:
        self.page = torch.zeros(1, 3, SIDE, SIDE).pin_memory()
        self.frame = torch.zeros(1, 3, SIDE, SIDE, device=device)
        self.uploaded = torch.cuda.Event()
        self.finished = torch.cuda.Event()
        work.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(work):
            net(self.frame)
        work.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=work):
            self.features = net(self.frame)


class Pipeline:
    def __init__(self, device: torch.device) -> None:
        net = Features().to(device).eval()
        self.upload, self.work = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        self.slots = [Slot(net, self.work, device) for _ in range(SLOTS)]
        self.held: deque[torch.Tensor] = deque(maxlen=2)
        self.shifts = torch.zeros(FRAMES, device=device)
        torch.cuda.synchronize()

    def push(self, number: int, picture: torch.Tensor) -> None:
        slot = self.slots[number % SLOTS]
        if number >= SLOTS:
            slot.uploaded.synchronize()
        slot.page.copy_(picture)
        with torch.cuda.stream(self.upload):
            if number >= SLOTS:
                self.upload.wait_event(slot.finished)
            slot.frame.copy_(slot.page, non_blocking=True)
            slot.uploaded.record(self.upload)
        with torch.cuda.stream(self.work):
            self.work.wait_event(slot.uploaded)
            slot.graph.replay()
            slot.finished.record(self.work)
            self.held.append(slot.features)
            if len(self.held) == 2:
                previous, current = self.held
                self.shifts[number].copy_((current - previous).abs().mean())

    def result(self) -> torch.Tensor:
        self.work.synchronize()
        return self.shifts.cpu()


def camera(count: int):
    draw = torch.Generator().manual_seed(67)
    scene = torch.rand(1, 3, SIDE, 2 * SIDE, generator=draw)
    for number in range(count):
        at = int(torch.randint(SIDE, (1,), generator=draw)) if number % 12 == 0 else number % SIDE
        yield scene[..., at : at + SIDE]


@torch.no_grad()
def main() -> None:
    torch.manual_seed(67)
    pipeline = Pipeline(torch.device("cuda"))
    for number, picture in enumerate(camera(FRAMES)):
        pipeline.push(number, picture)
    shifts = pipeline.result()
    print("largest jumps at", shifts.topk(4).indices.sort().values.tolist())


if __name__ == "__main__":
    main()
