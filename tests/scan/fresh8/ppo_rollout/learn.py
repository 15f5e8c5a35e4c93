import torch

from .collect import Collector
from .envs import Chase
from .policy import Actor


def improve(actor: Actor, optimizer: torch.optim.Optimizer, book, epochs: int = 4) -> torch.Tensor:
    gain = book.advantages()
    gain = (gain - gain.mean()) / (gain.std() + 1e-6)
    loss = torch.zeros((), device=gain.device)
    for _ in range(epochs):
        mean, std, worth = actor(book.obs)
        z = (book.action - mean) / std
        logp = (-0.5 * z.square() - std.log()).sum(-1)
        ratio = (logp - book.logp).exp()
        policy = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        loss = policy + 0.5 * (worth - (worth.detach() + gain)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def main(rounds: int = 100) -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    actor = Actor(6, 2).to(device)
    collector = Collector(actor, Chase(1024, device), device)
    optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    for i in range(rounds):
        loss = improve(actor, optimizer, collector.gather(64))
        if i % 20 == 0:
            print(i, loss.item())


if __name__ == "__main__":
    main()
