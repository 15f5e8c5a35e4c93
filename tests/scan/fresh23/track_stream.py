"""Two-stage video analytics: a detector on one stream, a feature tracker on another."""
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(5, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.heat = nn.Conv2d(width, 1, 1)
        self.coords = None

    def grid(self, frame):
        h, w = frame.shape[-2:]
        if self.coords is None or self.coords.shape[-2:] != (h, w):
            ys = torch.linspace(-1, 1, h, device=frame.device)
            xs = torch.linspace(-1, 1, w, device=frame.device)
            self.coords = torch.stack(torch.meshgrid(ys, xs, indexing="ij"))[None]
        return self.coords

    def forward(self, frame):
        x = torch.cat([frame, self.grid(frame)], dim=1)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return x, self.heat(x).sigmoid()


class Tracker(nn.Module):
    def __init__(self, width=16, slots=8):
        super().__init__()
        self.slots = slots
        self.embed = nn.Linear(width, width)

    def forward(self, feat, heat):
        score, where = heat.flatten(1).topk(self.slots, dim=1)
        picked = feat.flatten(2).transpose(1, 2).gather(
            1, where[..., None].expand(-1, -1, feat.shape[1])
        )
        return F.normalize(self.embed(picked), dim=-1), score


class Stage:
    def __init__(self, module, inputs, stream):
        self.inputs = inputs
        self.stream = stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(2):
                module(*inputs)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.outputs = module(*inputs)
        torch.cuda.current_stream().wait_stream(stream)

    def launch(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()
        return self.outputs


class Analytics:
    def __init__(self, device, memory=4):
        self.device = device
        self.detector = Detector().to(device).eval()
        self.tracker = Tracker().to(device).eval()
        self.lanes = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.stages = {}
        self.gallery = deque(maxlen=memory)
        self.scores = torch.zeros(1, self.tracker.slots).pin_memory()
        self.alerts = 0

    def stages_for(self, frame):
        size = tuple(frame.shape[-2:])
        if size not in self.stages:
            detect = Stage(self.detector, (frame.clone(),), self.lanes[0])
            track = Stage(self.tracker, detect.outputs, self.lanes[1])
            self.stages[size] = detect, track
        return self.stages[size]

    def feed(self, frame):
        detect, track = self.stages_for(frame)
        self.lanes[0].wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lanes[0]):
            detect.inputs[0].copy_(frame)
            frame.record_stream(self.lanes[0])
        detect.launch()
        vectors, score = track.launch()
        with torch.cuda.stream(self.lanes[1]):
            drift = sum((vectors - old).abs().mean() for old in self.gallery)
            self.gallery.append(vectors)
            self.scores.copy_(score, non_blocking=True)
        if self.scores.max() > 0.62:
            self.alerts += 1
        return drift

    def finish(self):
        for lane in self.lanes:
            torch.cuda.current_stream(self.device).wait_stream(lane)


def camera(device, count):
    gen = torch.Generator(device=device).manual_seed(9)
    for k in range(count):
        h, w = (32, 48) if (k // 4) % 2 == 0 else (48, 32)
        yield torch.rand(1, 3, h, w, generator=gen, device=device)


def main(device="cuda"):
    device = torch.device(device)
    torch.manual_seed(0)
    analytics = Analytics(device)
    drifts = [analytics.feed(frame) for frame in camera(device, 20)]
    analytics.finish()
    print("alerts", analytics.alerts, "drift", [round(float(d), 3) for d in drifts[1:]])


if __name__ == "__main__":
    main()
