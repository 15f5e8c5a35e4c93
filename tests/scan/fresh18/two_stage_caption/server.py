"""Caption server: an image encoder and a text scorer, each captured once."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Stage:
    name: str
    graph: torch.cuda.CUDAGraph
    inputs: torch.Tensor
    outputs: torch.Tensor

    def __call__(self) -> torch.Tensor:
        self.graph.replay()
        return self.outputs


class StageRecorder:
    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def record(self, name: str, fn, example: torch.Tensor) -> Stage:
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                fn(example)
        here.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            out = fn(example)
        return Stage(name, graph, example, out)


class CaptionServer:
    def __init__(self, encoder: nn.Module, scorer: nn.Module, rows: int, size: int, device):
        recorder = StageRecorder(device)
        self.device = device
        self.encoder, self.scorer = encoder, scorer
        image = torch.zeros(rows, 3, size, size, device=device)
        self.encode = recorder.record("encode", encoder, image)
        code = torch.zeros_like(self.encode.outputs)
        self.score = recorder.record("score", scorer, code)

    @torch.no_grad()
    def caption(self, image: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        self.encode.inputs.copy_(image)
        code = self.encode()
        torch.cuda.synchronize(self.device)
        self.score.inputs.copy_(code)
        scores = self.score()
        return captions.index_select(0, scores.argmax(-1))

    def run(self, images, captions: torch.Tensor) -> list[torch.Tensor]:
        return [self.caption(image, captions) for image in images]


def encoder_net(device) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.Flatten()
    ).to(device)


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    with torch.no_grad():
        server = CaptionServer(encoder_net(device), nn.Linear(16 * 16, 40).to(device), 4, 16, device)
    captions = torch.arange(40 * 6, device=device).view(40, 6)
    images = torch.randn(10, 4, 3, 16, 16, device=device)
    answers = server.run(images, captions)
    print(len(answers), answers[0].shape)


if __name__ == "__main__":
    main()
