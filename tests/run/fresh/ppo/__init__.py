from .agent import ActorCritic
from .ppo import PPOTrainer

__all__ = ["ActorCritic", "PPOTrainer"]
