import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def build_transformer_unfreeze(device):
    """Faulty: after 400 iterations the loop unfreezes the embedding of a small transformer, but the graph has no backward for it."""
    embed = nn.Embedding(50, 32).to(device).requires_grad_(False)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).to(device)
    head = nn.Linear(32, 50).to(device)
    params = [*embed.parameters(), *body.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=1e-3, capturable=True)

    def step(tokens, targets):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(head(body(embed(tokens))).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in params if p.grad is not None], 1.0)
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k == 400:
            embed.requires_grad_(True)
        args[0].copy_(torch.randint(0, 50, (4, 16)))
        args[1].copy_(torch.randint(0, 50, (4, 16)))

    tokens = torch.randint(0, 50, (4, 16), device=device)
    return Step(step, (tokens, tokens.roll(-1, 1)), refresh=refresh)


def build_transformer_unfreeze_100(device):
    """Faulty: as above, after 100 iterations."""
    made = build_transformer_unfreeze(device)
    tokens_in, embed = made.args[0], made.fn.__closure__
    table = next(c.cell_contents for c in embed if isinstance(c.cell_contents, nn.Embedding))

    def refresh(args, kwargs, k):
        if k == 100:
            table.requires_grad_(True)
        args[0].copy_(torch.randint(0, 50, (4, 16)))
        args[1].copy_(torch.randint(0, 50, (4, 16)))

    return Step(made.fn, made.args, refresh=refresh)


def build_transformer_unfreeze_counter(device):
    """Faulty: as above, after 400 iterations that the loop counts itself."""
    made = build_transformer_unfreeze(device)
    table = next(c.cell_contents for c in made.fn.__closure__ if isinstance(c.cell_contents, nn.Embedding))
    loop = {"iteration": 0}

    def refresh(args, kwargs, k):
        loop["iteration"] += 1
        if loop["iteration"] == 400:
            table.requires_grad_(True)
        args[0].copy_(torch.randint(0, 50, (4, 16)))
        args[1].copy_(torch.randint(0, 50, (4, 16)))

    return Step(made.fn, made.args, refresh=refresh)


def with_action(device, at, action):
    made = build_transformer_unfreeze(device)
    table = next(c.cell_contents for c in made.fn.__closure__ if isinstance(c.cell_contents, nn.Embedding))

    def refresh(args, kwargs, k):
        if k == at:
            action(table)
        args[0].copy_(torch.randint(0, 50, (4, 16)))
        args[1].copy_(torch.randint(0, 50, (4, 16)))

    return Step(made.fn, made.args, refresh=refresh)


def build_transformer_rebind_100(device):
    """Faulty: at iteration 100 the loop gives the frozen embedding a new weight, and the graph reads the old one."""

    def action(table):
        table.weight = nn.Parameter(torch.randn_like(table.weight), requires_grad=False)

    return with_action(device, 100, action)


def build_transformer_unfreeze_12(device):
    """Faulty: at iteration 12 the loop unfreezes the embedding."""
    return with_action(device, 12, lambda table: table.requires_grad_(True))
