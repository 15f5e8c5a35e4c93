"""Which joints touch the ground, and what follows from it."""


class Contacts:
    def __init__(self, floor=-0.5):
        self.floor = floor
        self.last = None

    def touching(self, joints):
        return joints[..., 1] < self.floor

    def penalty(self, joints):
        low = self.touching(joints)
        depth = (self.floor - joints[..., 1])[low]
        return depth.square().sum()
