import torch

from chatd.engine import Engine, TinyLM
from chatd.pool import BlockPool
from chatd.sched import Request, Scheduler


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(3)
    model = TinyLM(32, 16).to(device).eval()
    pool = BlockPool(24, 2, 16, device)
    engine = Engine(model, pool, (1, 2, 4), max_blocks=8, device=device)
    engine.warm()
    sched = Scheduler(engine, 4, device)
    done = [Request(prompt=i + 1, budget=4 + 2 * i) for i in range(6)]
    for wave in (done[:4], done[4:]):
        for request in wave:
            sched.submit(request)
        while sched.tick():
            pass
        pool.flush()
    for request in done:
        print(request.prompt, request.tokens, torch.stack(request.scores).std(0).mean().item())


if __name__ == "__main__":
    main()
