"""The PyTorch tutorial "optimizer step in backward": one AdamW per parameter, run by a post-accumulate-grad hook."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Encoder(nn.Module):
    def __init__(self, vocab=40, d=16, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 2, 32, dropout=0.1, batch_first=True, norm_first=True) for _ in range(depth)
        )
        self.cls = nn.Linear(d, 3)

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.cls(x.mean(1))


def build(device, batch=4, t=8):
    model = Encoder().to(device).train()
    optimizers = {p: torch.optim.AdamW([p], lr=1e-3, foreach=False, capturable=True) for p in model.parameters()}

    def optimizer_hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(optimizer_hook)

    ids = torch.randint(0, 40, (batch, t), device=device)
    y = torch.randint(0, 3, (batch,), device=device)

    def step(ids, y):
        loss = F.cross_entropy(model(ids), y)
        loss.backward()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 40, (batch, t)))
        args[1].copy_(torch.randint(0, 3, (batch,)))

    return graphsafe.Step(step, (ids, y), refresh=refresh)
