import torch

from .agent import ActorCritic
from .base import TrainerBase


class PPOTrainer(TrainerBase):
    def __init__(self, *args, clip=0.2, target_kl=0.02, beta=0.01, **kwargs):
        super().__init__(*args, **kwargs)
        self.clip = clip
        self.target_kl = target_kl
        self.beta = beta

    def loss(self, batch):
        logp_all, value = self.model(batch["obs"])
        logp = logp_all.gather(-1, batch["act"].unsqueeze(-1)).squeeze(-1)
        ratio = (logp - batch["logp"]).exp()
        adv = batch["adv"]
        surr = torch.minimum(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv)
        vloss = (value - batch["ret"]).square().mean()
        ent = self.model.entropy(logp_all).mean()
        kl = (batch["logp"] - logp).mean().detach()
        return -surr.mean() + 0.5 * vloss - self.beta * ent, {"kl": kl, "entropy": ent.detach()}

    def should_stop(self, metrics):
        if metrics["kl"] > 1.5 * self.target_kl:
            return True
        return False


def run(device, rollouts):
    model = ActorCritic(8, 4).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-4, capturable=True)
    rollouts = [{k: v.to(device) for k, v in batch.items()} for batch in rollouts]
    trainer = PPOTrainer(model, opt, rollouts[0], device)
    trainer.capture()
    return trainer.fit(4, rollouts)
