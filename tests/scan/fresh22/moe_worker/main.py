import torch

from block import MoE
from worker import Worker


def main(device="cuda"):
    torch.manual_seed(11)
    worker = Worker(MoE().to(device), 8, device)
    for i in range(12):
        n = 8 - i % 4
        y = worker.run(torch.randn(n, 16, device=device))
        worker.rebalance()
        if i == 6:
            worker.degrade(1)
        print("load", worker.load.cpu().numpy())


if __name__ == "__main__":
    main()
