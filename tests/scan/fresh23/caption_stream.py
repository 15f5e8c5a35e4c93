"""Live captions: features are uploaded while the previous chunk is being decoded."""
import torch
from torch import nn

CHUNK, FEATS, HIDDEN, SYMBOLS = 6, 40, 32, 28


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(FEATS, HIDDEN)
        self.gate = nn.Linear(2 * HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, frames, state):
        h = state.clone()
        symbols = []
        for t in range(CHUNK):
            x = torch.relu(self.inp(frames[t]))
            z = torch.sigmoid(self.gate(torch.cat((x, h), -1)))
            h = z * h + (1 - z) * x
            symbols.append(self.out(h).argmax(-1))
        state.copy_(h)
        return torch.stack(symbols)


class Lane:
    """Pinned staging memory, a device input and the graph that reads this input."""

    def __init__(self, net, state, speakers, stream):
        self.pinned = torch.zeros(CHUNK, speakers, FEATS, pin_memory=True)
        self.frames = torch.zeros(CHUNK, speakers, FEATS, device=state.device)
        self.uploaded, self.consumed = torch.cuda.Event(), torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.symbols = net(self.frames, state)


class CaptionStream:
    def __init__(self, net, speakers, device):
        self.net, self.device = net, torch.device(device)
        self.state = torch.zeros(speakers, HIDDEN, device=device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.work_stream = torch.cuda.Stream(self.device)
        self.work_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.work_stream):
            net(torch.zeros(CHUNK, speakers, FEATS, device=device), self.state)
        self.lanes = [Lane(net, self.state, speakers, self.work_stream) for _ in range(2)]
        self.count = 0
        self.start()

    def start(self):
        with torch.cuda.stream(self.work_stream):
            self.state.zero_()

    def submit(self, chunk, transcript):
        lane = self.lanes[self.count % 2]
        self.count += 1
        lane.uploaded.synchronize()
        lane.pinned.copy_(chunk)
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(lane.consumed)
            lane.frames.copy_(lane.pinned, non_blocking=True)
            lane.uploaded.record()
        with torch.cuda.stream(self.work_stream):
            self.work_stream.wait_event(lane.uploaded)
            lane.graph.replay()
            transcript.append(lane.symbols.clone())
            lane.consumed.record()

    def finish(self, transcript):
        with torch.cuda.stream(self.work_stream):
            joined = torch.cat(transcript)
        self.work_stream.synchronize()
        return joined.T.tolist()


def squeeze(symbols):
    kept = [a for a, b in zip(symbols, [0, *symbols]) if a != b and a]
    return "".join(chr(96 + k) if k < 27 else " " for k in kept)


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(6)
    stream = CaptionStream(Captioner().to(device).eval(), 2, device)
    source = torch.Generator().manual_seed(1)
    for clip in range(3):
        stream.start()
        transcript = []
        for _ in range(8):
            stream.submit(torch.randn(CHUNK, 2, FEATS, generator=source), transcript)
        for speaker, symbols in enumerate(stream.finish(transcript)):
            print(clip, speaker, squeeze(symbols))


if __name__ == "__main__":
    main()
