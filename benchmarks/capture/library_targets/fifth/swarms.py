"""Steps of vmas: vectorised environments of several agents on the device."""

import torch


def simulated(scenario, turns=3, **options):
    def build(device):
        import vmas

        more = {
            key: options.pop(key)
            for key in ("continuous_actions", "dict_spaces", "max_steps", "terminated_truncated")
            if key in options
        }
        env = vmas.make_env(scenario=scenario, num_envs=4, device=str(device), seed=0, **more, **options)
        env.reset()

        def step():
            out = None
            for _ in range(turns):
                actions = [env.get_random_action(agent) for agent in env.agents]
                out = env.step(actions)
            return out

        return step, ()

    return build


balanced_swarm = simulated("balance", n_agents=3)
navigating_swarm = simulated("navigation", n_agents=3, collisions=True)
discrete_swarm = simulated("transport", n_agents=3, continuous_actions=False)
flocking_swarm = simulated("flocking", n_agents=3, dict_spaces=True)
spread_swarm = simulated("simple_spread")
tagging_swarm = simulated("simple_tag")
discovering_swarm = simulated("discovery", n_agents=3, n_targets=3)
wheel_swarm = simulated("wheel", n_agents=3, terminated_truncated=True)


def reset_swarm(device):
    """Environments that are reset one by one and all at once."""
    import vmas

    env = vmas.make_env(scenario="dispersion", num_envs=4, device=str(device), seed=0, max_steps=5, n_agents=3)

    def step():
        env.reset(seed=1)
        observations, rewards, _dones, _infos = env.step([env.get_random_action(agent) for agent in env.agents])
        env.reset_at(2)
        return observations, rewards, env.done(), env.get_from_scenario(True, True, True, False)

    return step, ()


def joined_passage(device):
    import vmas

    env = vmas.make_env(scenario="joint_passage", num_envs=4, device=str(device), seed=0)

    def step(actions):
        env.reset()
        return env.step(actions)

    return step, ([torch.rand(4, env.get_agent_action_size(agent), device=device) * 2 - 1 for agent in env.agents],)
