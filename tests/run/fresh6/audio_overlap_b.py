"""Streaming speech enhancer: 50 % overlapping windows, two captured lanes in turn, overlap-add.

The tail of a frame stays where its lane wrote it: the other lane runs next, and by the time
this lane runs again its tail has been added and is done with.
"""
import torch

DEV = torch.device("cuda")
FRAME, HOP, HID, CHUNKS = 512, 256, 384, 20


class FrameNet(torch.nn.Module):
    """Analysis, a gate, synthesis; the window is applied on both sides."""

    def __init__(self):
        super().__init__()
        self.analysis = torch.nn.Linear(FRAME, HID)
        self.gate = torch.nn.Linear(HID, HID)
        self.synthesis = torch.nn.Linear(HID, FRAME)
        self.register_buffer("window", torch.hann_window(FRAME))

    def forward(self, frame):
        hidden = torch.relu(self.analysis(frame * self.window))
        return self.synthesis(hidden * torch.sigmoid(self.gate(hidden))) * self.window


class Lane:
    """A graph with a pool, an input and an output of its own."""

    def __init__(self, net):
        self.frame = torch.zeros(1, FRAME, device=DEV)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                net(self.frame)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.ready, self.pending = net(self.frame).split(HOP, dim=1)


class Enhancer:
    """One microphone stream: push() takes HOP new samples and emits HOP finished ones."""

    def __init__(self, net):
        self.lanes = (Lane(net), Lane(net))
        self.turn = 0
        self.last = torch.zeros(1, HOP, device=DEV)
        self.tail = torch.zeros(1, HOP, device=DEV)

    def push(self, samples):
        lane = self.lanes[self.turn]
        self.turn ^= 1
        lane.frame[:, :HOP].copy_(self.last)
        lane.frame[:, HOP:].copy_(samples)
        self.last = samples
        lane.graph.replay()
        speech = lane.ready + self.tail     # self.tail lies in the other lane's output
        self.tail = lane.pending
        return speech


def offline(net, chunks):
    """The same overlap-add, frame by frame, without a graph."""
    frame = torch.zeros(1, FRAME, device=DEV)
    tail = torch.zeros(1, HOP, device=DEV)
    done = []
    for samples in chunks:
        frame = torch.cat((frame[:, HOP:], samples), dim=1)
        out = net(frame)
        done.append(out[:, :HOP] + tail)
        tail = out[:, HOP:]
    return torch.cat(done, dim=1)


@torch.no_grad()
def main():
    torch.manual_seed(11)
    net = FrameNet().to(DEV).eval()
    signal = torch.sin(torch.arange(CHUNKS * HOP) * 0.031) + 0.3 * torch.randn(CHUNKS * HOP)
    chunks = signal.to(DEV).view(CHUNKS, 1, HOP).unbind(0)

    enhancer = Enhancer(net)
    played = torch.cat([enhancer.push(c) for c in chunks], dim=1)

    torch.cuda.synchronize()
    want = offline(net, chunks)
    good = torch.allclose(played, want, rtol=1e-3, atol=1e-4)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
