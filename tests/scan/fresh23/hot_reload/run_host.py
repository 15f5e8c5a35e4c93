import torch
from host import TowerHost
from net import Tower

WIDTH, DEPTH, BATCH = 12, 3, 4


def checkpoints(n):
    for seed in range(n):
        torch.manual_seed(100 + seed)
        yield Tower(WIDTH, DEPTH).state_dict()


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    host = TowerHost(WIDTH, DEPTH, BATCH, device)
    work = torch.randn(6, BATCH, WIDTH, device=device)
    answers = []
    for state in checkpoints(4):
        for turn in range(work.shape[0]):
            answers.append(host.infer(work[turn], turn))
        host.park()
        host.reload(state)
        host.resume()
        if host.version == 2:
            host.set_residual(0.5)
        if host.version == 3:
            host.forget()
    table = torch.stack(answers).mean((1, 2))
    print([round(v, 4) for v in table.tolist()], host.version)


if __name__ == "__main__":
    main()
