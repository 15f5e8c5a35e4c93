import torch

from layers import LoraLinear
from server import Server


def adapters(device):
    for i, name in enumerate(("law", "code", "chat")):
        yield name, {"a": torch.randn(2, 24, device=device), "b": torch.randn(24, 2, device=device), "alpha": 0.5 + i}


def main(device="cuda"):
    torch.manual_seed(7)
    server = Server(LoraLinear(24, 2).to(device), device)
    pool = dict(adapters(device))
    answers = []
    for turn in range(4):
        for name in pool:
            answers.append(server.handle(name, pool[name], torch.randn(4, 24, device=device)))
    print(sum(a["hidden"].sum().item() for a in answers))


if __name__ == "__main__":
    main()
