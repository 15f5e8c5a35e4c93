"""Hand-over of learner weights to the actor."""
import threading


class Mailbox:
    """Holds the newest weights until the actor collects them."""

    def __init__(self):
        self._lock = threading.Lock()
        self._newest = None
        self.version = 0

    def post(self, weights):
        with self._lock:
            self._newest = {k: v.detach().clone() for k, v in weights.items()}
            self.version += 1

    def collect(self, policy):
        with self._lock:
            newest, self._newest = self._newest, None
        if newest is None:
            return False
        for name in policy.names:
            policy.weights[name] = newest[name].to(policy.device)
        return True
