import torch
import torch.nn as nn

from cache import BlockManager
from config import EngineConfig


class TinyDecoder(nn.Module):
    def __init__(self, cfg: EngineConfig):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.capacity, cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, tokens, positions, table, cache: BlockManager, span: int):
        x = self.embed(tokens) + self.pos(positions)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        cache.store(cache.slots(table, positions), k, v)
        keys, values = cache.gather(table, span)
        score = torch.einsum("bd,bsd->bs", q, keys) / self.cfg.dim**0.5
        seen = torch.arange(span, device=tokens.device) <= positions.unsqueeze(1)
        weight = score.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.out(x + torch.einsum("bs,bsd->bd", weight, values))


class DecodeRunner:
    def __init__(self, model: TinyDecoder, cache: BlockManager, cfg: EngineConfig, device: torch.device):
        self.model, self.cache, self.cfg, self.device = model, cache, cfg, device
        self.tokens = torch.zeros(cfg.max_batch, dtype=torch.long, device=device)
        self.positions = torch.zeros(cfg.max_batch, dtype=torch.long, device=device)
        self.block_table = cache.null_table
        self.span = cfg.block_size
        self.stream = torch.cuda.Stream(device)
        self.graph = None
        self.logits = None

    @torch.no_grad()
    def _decode(self):
        return self.model(self.tokens, self.positions, self.block_table, self.cache, self.span)

    def capture(self) -> None:
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._decode()
        here.wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.logits = self._decode()

    def begin(self, seq_ids: list[int], tokens: torch.Tensor) -> None:
        self.tokens.copy_(tokens)
        self.positions.zero_()
        self.block_table = self.cache.table_for(seq_ids)

    def step(self, context_len: int) -> torch.Tensor:
        blocks = -(-context_len // self.cfg.block_size)
        self.span = blocks * self.cfg.block_size
        self.graph.replay()
        result = self.logits.clone()
        self.tokens.copy_(result.argmax(-1))
        self.positions.add_(1)
        return result
