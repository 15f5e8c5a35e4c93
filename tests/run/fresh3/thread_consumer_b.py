"""A graph produces frames; a writer thread takes them from a queue in groups."""
import queue
import threading

import torch
import torch.nn.functional as F

GROUP = 4


class FrameFilter:
    def __init__(self, device, height=24, width=32):
        taps = torch.tensor([1.0, 2.0, 1.0])
        kernel = torch.outer(taps, taps) / 16
        self.kernel = kernel.view(1, 1, 3, 3).to(device)
        self.frame = torch.zeros(1, 1, height, width, device=device)
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.blur()
            self.blur()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.smooth = self.blur()

    def blur(self):
        x = self.frame
        for _ in range(3):
            x = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), self.kernel)
        return x

    def process(self, frame):
        self.frame.copy_(frame)
        self.graph.replay()
        return self.smooth.clone()


class Writer(threading.Thread):
    def __init__(self):
        super().__init__(name="writer")
        self.inbox = queue.Queue()
        self.means = []

    def flush(self, group):
        for done in (event for _, event in group):
            done.synchronize()
        stacked = torch.stack([frame for frame, _ in group])
        self.means.extend(stacked.mean(dim=(1, 2, 3, 4)).tolist())

    def run(self):
        group = []
        while True:
            item = self.inbox.get()
            if item is None:
                break
            group.append(item)
            if len(group) == GROUP:
                self.flush(group)
                group = []
        if group:
            self.flush(group)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    blur = FrameFilter(device)
    writer = Writer()
    writer.start()
    for number in range(18):
        smooth = blur.process(torch.rand(1, 1, 24, 32) + number)
        done = torch.cuda.Event()
        done.record()
        writer.inbox.put((smooth, done))
    writer.inbox.put(None)
    writer.join()
    print("frames", len(writer.means), [round(m, 3) for m in writer.means[:6]])


if __name__ == "__main__":
    main()
