"""Captured fine-tuning step; learning rate, clip factor and step count live on the device."""
import torch
from torch import nn
from torch.nn import functional as F


class Head(nn.Module):
    def __init__(self, vocab=50, dim=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.Linear(2 * dim, dim)
        self.proj = nn.Linear(dim, vocab)

    def forward(self, ids):
        e = self.embed(ids)
        shifted = F.pad(e, (0, 0, 1, 0))[:, :-1]
        return self.proj(torch.tanh(self.rnn(torch.cat([e, shifted], -1))))


def make_step(model, optimizer, ids, meters, slot):
    def run():
        optimizer.zero_grad(set_to_none=False)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
        scale = (1.0 / (total + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(grads, scale)
        optimizer.step()
        row = torch.stack([loss.detach(), total.detach()])
        meters.index_copy_(0, slot, row[None])
        slot.add_(1)

    return run


def capture(fn, device, warmup=3):
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(warmup):
            fn()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        fn()
    return graph


def main(device="cuda", steps=12):
    device = torch.device(device)
    torch.manual_seed(5)
    model = Head().to(device)
    lr = torch.tensor(3e-3, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, capturable=True, foreach=True)
    ids = torch.zeros(4, 13, dtype=torch.long, device=device)
    meters = torch.zeros(steps + 4, 2, device=device)
    slot = torch.zeros(1, dtype=torch.long, device=device)
    graph = capture(make_step(model, optimizer, ids, meters, slot), device)

    slot.zero_()
    corpus = torch.randint(0, 50, (steps, 4, 13)).pin_memory()
    schedule = torch.linspace(3e-3, 3e-4, steps, device=device)
    for k in range(steps):
        ids.copy_(corpus[k], non_blocking=True)
        lr.copy_(schedule[k])
        graph.replay()
    for loss, norm in meters[:steps].tolist():
        print(f"{loss:.3f} {norm:.3f}")


if __name__ == "__main__":
    main()
