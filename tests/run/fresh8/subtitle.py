"""Captions for video: the text side remembers its last result, the decoder mixes it with the picture."""

import torch
from torch import nn

TOKENS, VOCAB, DIM, FRAMES = 12, 150, 40, 30


class TextEncoder(nn.Module):
    """Encodes a prompt once; asked again for the same tensor it returns what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.last: tuple[tuple, torch.Tensor] | None = None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        key = (ids.data_ptr(), tuple(ids.shape), ids.dtype)
        if self.last is not None and self.last[0] == key:
            return self.last[1]
        hidden = self.embed(ids).cumsum(1) / torch.arange(1, TOKENS + 1, device=ids.device)[None, :, None]
        summary = torch.tanh(hidden).mean(1)
        self.last = (key, summary)
        return summary


class Captioner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Linear(64, DIM)
        self.head = nn.Linear(2 * DIM, VOCAB)

    def forward(self, picture: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat((self.picture(picture), text), dim=-1)).argmax(-1)


class Service:
    def __init__(self, device: torch.device) -> None:
        self.encoder = TextEncoder().to(device).eval()
        self.captioner = Captioner().to(device).eval()
        self.ids = torch.zeros(1, TOKENS, dtype=torch.long, device=device)
        self.picture = torch.zeros(1, 64, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.captioner(self.picture, self.encoder(self.ids))
        torch.cuda.current_stream().wait_stream(side)
        self.text_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.text_graph):
            self.text = self.encoder(self.ids)
        self.frame_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.frame_graph):
            self.word = self.captioner(self.picture, self.text)

    def prompt(self, ids: torch.Tensor) -> None:
        self.ids.copy_(ids)
        self.text_graph.replay()

    def frame(self, picture: torch.Tensor) -> torch.Tensor:
        self.picture.copy_(picture)
        self.frame_graph.replay()
        return self.word.clone()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(23)
    device = torch.device("cuda")
    service = Service(device)
    for number in range(4):
        service.prompt(torch.randint(VOCAB, (1, TOKENS), device=device))
        words = [service.frame(torch.randn(1, 64, device=device)) for _ in range(FRAMES)]
        print(f"prompt {number}:", torch.cat(words)[:8].tolist())


if __name__ == "__main__":
    main()
