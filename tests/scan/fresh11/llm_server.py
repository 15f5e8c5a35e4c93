"""Batch server with graph replay and a plain path for builds where graphs are not available."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn

log = logging.getLogger("server")


@dataclass
class ServerConfig:
    batch: int = 4
    length: int = 24
    vocab: int = 40
    dim: int = 16
    enforce_eager: bool = False


class WindowedModel(nn.Module):
    def __init__(self, cfg: ServerConfig):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab)
        self.register_buffer("steps", torch.arange(cfg.length), persistent=False)

    def _trim(self, ids, lengths):
        longest = lengths.max().item()
        return ids[:, :longest]

    def forward(self, ids, lengths):
        ids = self._trim(ids, lengths)
        keep = self.steps[: ids.shape[1]] < lengths.unsqueeze(1)
        h = self.embed(ids) * keep.unsqueeze(-1)
        return self.head(h.sum(1) / lengths.unsqueeze(1))


class Server:
    def __init__(self, cfg: ServerConfig, device: torch.device):
        self.cfg, self.device = cfg, device
        self.model = WindowedModel(cfg).to(device).eval()
        self.ids = torch.zeros(cfg.batch, cfg.length, dtype=torch.long, device=device)
        self.lengths = torch.full((cfg.batch,), cfg.length, dtype=torch.long, device=device)
        self.graph = None
        self.logits = None
        if not cfg.enforce_eager:
            self._try_graph()

    @torch.no_grad()
    def _try_graph(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self.model(self.ids, self.lengths)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                self.logits = self.model(self.ids, self.lengths)
            self.graph = graph
        except RuntimeError as err:
            log.debug("graphs are off: %s", err)

    @torch.no_grad()
    def answer(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.lengths.copy_(lengths)
        if self.graph is None:
            return self.model(self.ids, self.lengths)
        self.graph.replay()
        return self.logits.clone()


def main(device="cuda"):
    torch.manual_seed(14)
    device = torch.device(device)
    cfg = ServerConfig()
    ids = torch.randint(0, cfg.vocab, (3, cfg.batch, cfg.length), device=device)
    lengths = torch.randint(1, cfg.length + 1, (3, cfg.batch), device=device)
    server = Server(cfg, device)
    return torch.stack([server.answer(i, n) for i, n in zip(ids, lengths)])


if __name__ == "__main__":
    print(main().argmax(-1).cpu())
