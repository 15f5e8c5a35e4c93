"""REINFORCE on a toy task: emit as many tokens from the upper half of the vocabulary as possible."""
import torch
import torch.nn.functional as F

from engine import RolloutEngine
from policy import Policy

VOCAB, DIM, BATCH, HORIZON = 24, 16, 8, 10


def reward(tokens):
    return (tokens >= VOCAB // 2).float().mean(1)


def main(device: str = "cuda", rounds: int = 5):
    torch.manual_seed(2)
    engine = RolloutEngine(VOCAB, DIM, BATCH, HORIZON, device)
    learner = Policy(VOCAB, DIM).to(device)
    learner.load_state_dict(engine.policy.state_dict())
    optimizer = torch.optim.AdamW(learner.parameters(), lr=3e-3)
    returns = []
    for r in range(rounds):
        start = torch.randint(1, VOCAB, (BATCH,), device=device)
        tokens, _ = engine.rollout(start)
        engine.sleep()

        gain = reward(tokens)
        inputs = torch.cat((start[:, None], tokens[:, :-1]), 1)
        logp = -F.cross_entropy(learner.sequence(inputs).flatten(0, 1), tokens.flatten(), reduction="none")
        loss = -(logp.view(BATCH, -1).sum(1) * (gain - gain.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        returns.append(gain.mean())

        engine.wake()
        engine.refit(learner.state_dict())
        engine.set_temperature(max(0.5, 1.0 - 0.1 * r))
    print([round(v, 3) for v in torch.stack(returns).tolist()])


if __name__ == "__main__":
    main()
