"""Inputs are prefetched on a copy stream while the graph works on the main one."""
import torch
import torch.nn.functional as F


class Prefetcher:
    def __init__(self, batches, target, device):
        self.batches = [b.pin_memory() for b in batches]
        self.target = target
        self.stream = torch.cuda.Stream(device)
        self.ready = torch.cuda.Event()
        self.consumed = torch.cuda.Event()
        self.next = 0
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def load(self):
        batch = self.batches[self.next]
        self.next += 1
        with torch.cuda.stream(self.stream):
            self.target.copy_(batch, non_blocking=True)
            self.ready.record()

    def wait(self):
        torch.cuda.current_stream().wait_event(self.ready)

    def done(self):
        self.consumed.record()

    def __len__(self):
        return len(self.batches) - self.next


class ConvHead:
    def __init__(self, device):
        gen = torch.Generator().manual_seed(1)
        self.w1 = (torch.randn(16, 3, 3, 3, generator=gen) * 0.2).to(device)
        self.w2 = (torch.randn(16, 16, 3, 3, generator=gen) * 0.1).to(device)

    def __call__(self, image):
        x = F.relu(F.conv2d(image, self.w1, padding=1))
        for _ in range(3):
            x = F.relu(F.conv2d(x, self.w2, padding=1))
        return x.mean(dim=(2, 3))


def capture(fn, example):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fn(example)
        fn(example)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fn(example)
    return graph, out


@torch.no_grad()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    frames = torch.zeros(8, 3, 32, 32, device=device)
    head = ConvHead(device)
    graph, features = capture(head, frames)
    mean = torch.zeros_like(features)
    clips = [torch.rand(8, 3, 32, 32) for _ in range(25)]
    feed = Prefetcher(clips, frames, device)
    seen = 0
    while len(feed):
        feed.load()
        feed.wait()
        graph.replay()
        feed.done()
        mean.add_(features)
        seen += 1
    torch.cuda.synchronize()
    print("clips", seen, "feature mean", round((mean / seen).mean().item(), 6))


if __name__ == "__main__":
    main()
