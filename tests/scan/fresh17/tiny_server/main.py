from collections import deque

import torch

from model import SlotLM
from runner import GraphTable


def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    model = SlotLM().to(device).eval().requires_grad_(False)
    table = GraphTable(model, device, sizes=(1, 2, 4))
    table.record_all()
    model.at.zero_()
    model.last.zero_()
    queue = deque((slot, 3 + slot % 4, 0.0 if slot % 2 else 0.7) for slot in range(10))
    active = []
    while queue or active:
        while queue and len(active) < 4:
            active.append(list(queue.popleft()))
        table.run([a[0] for a in active], [a[2] for a in active])
        for a in active:
            a[1] -= 1
        active = [a for a in active if a[1] > 0]
    print(model.text.view(-1, model.limit)[:10].cpu())


if __name__ == "__main__":
    main()
