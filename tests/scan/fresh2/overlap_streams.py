"""Two-branch model whose branches overlap on side streams inside one graph."""
import torch
from torch import nn


class Fork:
    """Runs callables on side streams and joins them all."""

    def __init__(self, width, device):
        self.streams = [torch.cuda.Stream(device) for _ in range(width)]
        self.device = device

    def __call__(self, *jobs):
        here = torch.cuda.current_stream(self.device)
        start = torch.cuda.Event()
        start.record(here)
        results = []
        for stream, job in zip(self.streams, jobs):
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                results.append(job())
        for stream in self.streams[: len(jobs)]:
            here.wait_stream(stream)
        return results


class Multi(nn.Module):
    def __init__(self, fork, text=64, image=128, width=96):
        super().__init__()
        self.fork = fork
        self.text = nn.Sequential(nn.Linear(text, width), nn.GELU(), nn.Linear(width, width))
        self.image = nn.Sequential(nn.Linear(image, width), nn.GELU(), nn.Linear(width, width))
        self.log_temp = nn.Parameter(torch.tensor(2.0))

    def forward(self, text, image):
        t, i = self.fork(lambda: self.text(text), lambda: self.image(image))
        t, i = nn.functional.normalize(t, dim=-1), nn.functional.normalize(i, dim=-1)
        return self.log_temp.exp() * t @ i.t()


class Matcher:
    def __init__(self, batch, device):
        self.device = device
        self.model = Multi(Fork(2, device)).to(device).eval().requires_grad_(False)
        self.temperature = self.model.log_temp.exp().item()
        self.text = torch.zeros(batch, 64, device=device)
        self.image = torch.zeros(batch, 128, device=device)
        self.done = torch.cuda.Event()
        self.host = torch.empty(batch, dtype=torch.long, pin_memory=True)
        main = torch.cuda.Stream(device)
        main.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(main):
            for _ in range(3):
                self.model(self.text, self.image).argmax(1)
        torch.cuda.current_stream(device).wait_stream(main)
        main.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=main):
            self.best = self.model(self.text, self.image).argmax(1)

    def submit(self, text, image):
        """Inputs are on the device already; nothing here waits."""
        self.text.copy_(text)
        self.image.copy_(image)
        self.graph.replay()
        self.host.copy_(self.best, non_blocking=True)
        self.done.record()

    def result(self):
        self.done.synchronize()
        return self.host.tolist()


def match_once(device=torch.device("cuda", 0), batch=32):
    matcher = Matcher(batch, device)
    text = torch.randn(batch, 64, device=device)
    image = torch.randn(batch, 128, device=device)
    matcher.submit(text, image)
    print("temperature", matcher.temperature)
    return matcher.result()


if __name__ == "__main__":
    print(match_once())
