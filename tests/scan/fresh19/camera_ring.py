import numpy as np
import torch
from torch import nn


class Slot:
    def __init__(self, shape, classes):
        self.inbox = torch.zeros(shape, dtype=torch.uint8).pin_memory()
        self.outbox = torch.zeros(shape[0], classes).pin_memory()
        self.finished = torch.cuda.Event()
        self.pending = False


class Detector(nn.Module):
    def __init__(self, side, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.head = nn.Linear(6 * (side // 2) ** 2, classes)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x.float() / 255)).flatten(1)).sigmoid()


class Camera:
    def __init__(self, net, shape, classes, depth, device):
        self.net = net
        self.pixels = torch.zeros(shape, dtype=torch.uint8, device=device)
        self.slots = [Slot(shape, classes) for _ in range(depth)]
        self.copier = torch.cuda.Stream(device)
        self.worker = torch.cuda.Stream(device)
        self.turn = 0

    @torch.no_grad()
    def setup(self):
        self.worker.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.worker):
            for _ in range(2):
                self.net(self.pixels)
        torch.cuda.current_stream().wait_stream(self.worker)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.worker):
            self.found = self.net(self.pixels)

    def _drain(self, slot, sink):
        if slot.pending:
            slot.finished.synchronize()
            sink.append(slot.outbox.clone())
            slot.pending = False

    def submit(self, frame, sink):
        slot = self.slots[self.turn % len(self.slots)]
        self.turn += 1
        self._drain(slot, sink)
        slot.inbox.copy_(torch.from_numpy(frame))
        self.copier.wait_stream(self.worker)
        with torch.cuda.stream(self.copier):
            self.pixels.copy_(slot.inbox, non_blocking=True)
        self.worker.wait_stream(self.copier)
        with torch.cuda.stream(self.worker):
            self.graph.replay()
            slot.outbox.copy_(self.found, non_blocking=True)
            slot.finished.record()
        slot.pending = True

    def flush(self, sink):
        for k in range(len(self.slots)):
            self._drain(self.slots[(self.turn + k) % len(self.slots)], sink)


def main():
    device = torch.device("cuda")
    torch.manual_seed(4)
    rng = np.random.default_rng(1)
    shape = (2, 3, 8, 8)
    camera = Camera(Detector(8, 4).to(device).eval(), shape, 4, 3, device)
    camera.setup()
    boxes = []
    for _ in range(11):
        camera.submit(rng.integers(0, 255, shape, dtype=np.uint8), boxes)
    camera.flush(boxes)
    print(torch.stack(boxes).argmax(-1).tolist())


if __name__ == "__main__":
    main()
