"""Fine-tuning a head on a frozen backbone, both passed through make_graphed_callables, with validation in between."""
import copy
import logging

import torch
import torch.nn.functional as F

DEV = torch.device("cuda")
FEAT, WIDTH, CLASSES, BATCH, STEPS, VALIDATE, LR = 48, 128, 7, 32, 20, 5, 0.1
log = logging.getLogger("finetune")


class Backbone(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = torch.nn.Linear(FEAT, WIDTH)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, x):
        h = self.enter(x)
        for block in self.blocks:
            h = h + torch.relu(block(h)) * 0.5
        return self.norm(h)


class Scale:
    """A forward hook: running size of the head's answers, kept on the card."""

    def __init__(self):
        self.value = torch.zeros((), device=DEV)

    def __call__(self, module, args, output):
        self.value.lerp_(output.detach().abs().mean(), 0.1)


def speed_up(module, sample):
    """Graphed where that works, as it is where it does not."""
    try:
        return torch.cuda.make_graphed_callables(module, (sample,))
    except Exception as error:
        log.debug("%s stays as it is: %s", type(module).__name__, error)
        return module


def train(backbone, head, data):
    losses = []
    for n, (x, y) in enumerate(data):
        loss = F.cross_entropy(head(backbone(x)), y)
        head.zero_grad(set_to_none=True)
        loss.backward()
        with torch.no_grad():
            for w in head.parameters():
                w.sub_(w.grad, alpha=LR)
        losses.append(loss.detach().clone())
        if n % VALIDATE == VALIDATE - 1:
            losses.append(validate(backbone, head, data[:2]))
    return torch.stack(losses)


@torch.no_grad()
def validate(backbone, head, data):
    backbone.eval()
    head.eval()
    total = torch.stack([F.cross_entropy(head(backbone(x)), y) for x, y in data]).mean()
    head.train()
    return total


def main():
    torch.manual_seed(19)
    backbone = Backbone().to(DEV).requires_grad_(False)
    head = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, CLASSES)).to(DEV)
    data = [(torch.randn(BATCH, FEAT).to(DEV), torch.randint(CLASSES, (BATCH,)).to(DEV)) for _ in range(STEPS)]
    plain = copy.deepcopy((backbone, head))

    scale = Scale()
    head.register_forward_hook(scale)
    backbone = speed_up(backbone, torch.zeros(BATCH, FEAT, device=DEV))
    head = speed_up(head, torch.zeros(BATCH, WIDTH, device=DEV))
    losses = train(backbone, head, data)

    torch.cuda.synchronize()
    good = torch.allclose(losses, train(*plain, data), rtol=1e-3, atol=1e-4) and bool(scale.value > 0)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
