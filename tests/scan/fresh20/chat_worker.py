"""Decode worker: admits prompts into slots, runs fixed-size decode graphs, delivers finished streams."""
import torch
from torch import nn

VOCAB, DIM, MAX_LEN, SLOTS = 96, 32, 40, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, VOCAB)
        self.register_buffer("kv", torch.zeros(2, SLOTS + 1, MAX_LEN, DIM))
        self.register_buffer("span", torch.arange(MAX_LEN))

    def forward(self, ids, pos, rows):
        x = self.emb(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        self.kv[0].index_put_((rows, pos), k)
        self.kv[1].index_put_((rows, pos), v)
        scores = (self.kv[0].index_select(0, rows) * q[:, None]).sum(-1) * DIM**-0.5
        scores = scores.masked_fill(self.span > pos[:, None], float("-inf"))
        mixed = (scores.softmax(-1)[..., None] * self.kv[1].index_select(0, rows)).sum(1)
        return self.out(x + mixed)


class Worker:
    def __init__(self, device):
        self.net = Block().to(device).eval()
        make = lambda fill: torch.full((SLOTS,), fill, dtype=torch.long, device=device)
        self.ids, self.pos, self.rows = make(0), make(0), make(SLOTS)
        self.history = torch.zeros(SLOTS + 1, MAX_LEN, dtype=torch.long, device=device)
        self.pinned = [torch.zeros(3, SLOTS, dtype=torch.long, pin_memory=True) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0
        self.occupied = [None] * SLOTS
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.advance()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.advance()
        self.pos.zero_()
        self.history.zero_()

    def advance(self):
        logits = self.net(self.ids, self.pos, self.rows)
        nxt = logits.argmax(-1)
        self.history.index_put_((self.rows, self.pos), nxt)
        self.ids.copy_(nxt)
        self.pos.add_(1).clamp_(max=MAX_LEN - 1)

    def set_slots(self, changes):
        host, event = self.pinned[self.turn], self.copied[self.turn]
        event.synchronize()
        host[0].fill_(-1)
        for slot, (token, row) in changes.items():
            host[0, slot], host[1, slot], host[2, slot] = 1, token, row
        staged = host.to(self.ids.device, non_blocking=True)
        event.record()
        self.turn ^= 1
        touched = staged[0] > 0
        torch.where(touched, staged[1], self.ids, out=self.ids)
        torch.where(touched, staged[2], self.rows, out=self.rows)
        self.pos.mul_(~touched)

    def serve(self, prompts):
        queue, finished, left = list(prompts), [], [0] * SLOTS
        while queue or any(left):
            changes = {}
            for slot in range(SLOTS):
                if left[slot] == 0 and self.occupied[slot] is not None:
                    finished.append((self.occupied[slot], self.history[slot].clone()))
                    self.occupied[slot] = None
                    changes[slot] = (0, SLOTS)
                if left[slot] == 0 and queue:
                    name, token, budget = queue.pop()
                    self.occupied[slot], left[slot] = (name, budget), budget
                    changes[slot] = (token, slot)
            if changes:
                self.set_slots(changes)
            self.graph.replay()
            left = [max(0, n - 1) for n in left]
        finished += [(o, self.history[s].clone()) for s, o in enumerate(self.occupied) if o is not None]
        return finished


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(1)
    worker = Worker(torch.device(device))
    rows = worker.serve([(f"r{i}", i + 3, 4 + i % 6) for i in range(9)])
    for (name, budget), row in rows:
        print(name, row[:budget].tolist())


if __name__ == "__main__":
    main()
