"""Sentence embeddings by sentence-transformers, and a training step made with accelerate."""

import torch
import torch.nn.functional as F
from torch import nn


def pooling(device):
    from sentence_transformers.models import Pooling

    module = Pooling(16, pooling_mode="mean").to(device)

    @torch.no_grad()
    def step(tokens, mask):
        pooled = module({"token_embeddings": tokens, "attention_mask": mask})["sentence_embedding"]
        return F.normalize(pooled, dim=-1)

    mask = (torch.arange(8, device=device) < torch.tensor([[5], [8]], device=device)).long()
    return step, (torch.randn(2, 8, 16, device=device), mask)


def change_mask(args, kwargs, k):
    args[0].normal_()
    args[1].copy_((torch.arange(8) < torch.tensor([[2 + k % 5], [8 - k % 3]])).long())


def ranking(device):
    from sentence_transformers.util import cos_sim

    def step(queries, documents):
        return cos_sim(queries, documents).topk(3, dim=-1)[0]

    return step, (torch.randn(4, 16, device=device), torch.randn(20, 16, device=device))


def accelerated_training(device):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision="no")
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
    model, optimizer = accelerator.prepare(model, optimizer)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))


CHANGE = {"pooling": change_mask}
