"""Drives each program a few steps, in a process of its own: `python drive.py [NAME ...]`."""

import importlib
import multiprocessing
import os
import random
import sys
import tempfile

import torch

CUDA = torch.device("cuda", 0)


def adapter_server(module):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as weights:
        model = module.Classifier()
        shapes = {name: value for name, value in model.named_buffers() if name.endswith((".a", ".b"))}
        torch.save({name: torch.randn_like(value) for name, value in shapes.items()}, os.path.join(folder, "one"))
        state = {name: torch.randn_like(value) for name, value in model.named_parameters()}
        torch.save(state, os.path.join(weights, "w"))
        x = torch.randn(8, 64, device=CUDA)
        requests = [("x", x), ("adapter", "one"), ("x", x), ("x", x), ("weights", os.path.join(weights, "w")), ("x", x)]
        for _ in module.serve([*requests, ("x", x)], folder, CUDA):
            pass


def asr_stream(module):
    importlib.import_module("asr_stream.session").transcribe(torch.randn(2, 16 * 8, 40, device=CUDA), CUDA)


def bucket_runner(module):
    service = module.EmbeddingService(module.Pooler().to(CUDA).eval(), [1, 2, 4], [8, 16], CUDA)
    for count, length in [(1, 5), (2, 9), (3, 16), (1, 8), (1, 3), (2, 7), (4, 4), (1, 12), (2, 30), (1, 5), (3, 8)]:
        service.embed([[random.randrange(1, 1000) for _ in range(length)] for _ in range(count)])


def callback_trainer(module):
    loss = torch.nn.functional.mse_loss
    batches = [(torch.randn(16, 8).pin_memory(), torch.randn(16, 1).pin_memory()) for _ in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        callbacks = [
            module.Log(os.path.join(folder, "log"), every=4),
            module.Checkpoint(os.path.join(folder, "model"), every=6),
            module.EarlyStop([(torch.randn(10, 8), torch.randn(10, 1))], every=5),
        ]
        module.GraphTrainer(torch.nn.Linear(8, 1).to(CUDA), loss, 1e-2, batches[0], callbacks).fit(batches, 12)


def ddim_pipe(module):
    loop, schedule = importlib.import_module("ddim_pipe.loop"), importlib.import_module("ddim_pipe.schedule")
    sampler = loop.Sampler(loop.Denoiser().to(CUDA).eval(), schedule.DDIMSchedule(1000, 25, CUDA, eta=0.3), (4, 24), CUDA)
    sampler.capture()
    sampler.sample(2, lambda t, x: None)


def gan_closures(module):
    module.train(torch.randn(256, 8), 6, CUDA)


def hot_reload(module):
    server = module.PolicyServer(module.Policy().to(CUDA).eval(), 4, CUDA)
    updates = [{name: torch.randn_like(value) for name, value in server.policy.state_dict().items()} for _ in range(2)]
    obs = torch.randn(4, 24, device=CUDA)
    list(module.collect(server, lambda action: obs, obs, updates, horizon=5))
    server.resize(6)
    server.replace(module.Policy(width=64), 3)
    obs = torch.randn(6, 24, device=CUDA)
    list(module.collect(server, lambda action: obs, obs, [], horizon=5))
    for _ in range(4):
        server.act(obs)


def jacobi_host_tol(module):
    module.solve(24, CUDA, limit=3)


def lbfgs_fit(module):
    module.fit(CUDA, n=64, basis=8)


def maybe_graphed(module):
    module.evaluate([torch.randn(2, 3, 32, 32) for _ in range(5)], CUDA)


def ppo(module):
    def rollout():
        act = torch.randint(0, 4, (32,))
        return {"obs": torch.randn(32, 8), "act": act, "logp": torch.full((32,), -1.386), **{key: torch.randn(32) for key in ("adv", "ret")}}

    importlib.import_module("ppo.ppo").run(CUDA, [rollout() for _ in range(3)])


def prefill_engine(module):
    engine, model = importlib.import_module("prefill_engine.engine"), importlib.import_module("prefill_engine.model")
    served = engine.Engine(model.Decoder().to(CUDA).eval(), 3, 64, CUDA)
    served.warm_decode()
    served.generate([[1, 2, 3], [4, 5, 6, 7]], 8)


def registered_noise(module):
    module.train(torch.randn(64, 16), 3, CUDA, batch=16)


def replica_pool(module):
    pool = module.ReplicaPool((2, 16, 32), count=1)
    for _ in range(4):
        pool.submit(torch.randn(2, 16, 32)).result()
    pool.workers.shutdown()


def selfplay_service(module):
    evaluator = module.Evaluator(module.PolicyValue().to(CUDA).eval(), 4, CUDA)
    records = module.selfplay(evaluator, [module.Game() for _ in range(3)], 8)
    print([torch.stack([value for _, value in record]).mean().item() for record in records])


def spec_decode(module):
    engine = module.create(CUDA)
    state = torch.zeros(1, 64, device=CUDA)
    module.generate(engine, torch.zeros(1, 1, dtype=torch.long, device=CUDA), state, state.clone(), 12)


def spec_device(module):
    step, (first,) = module.build(CUDA)
    module.Decoder(step, 6, CUDA).run(first, 8)


def train_classifier(module):
    module.main(["--steps", "24", "--log-every", "8"])


def train_vae(module):
    module.main(["--iters", "8"])


NAMES = sorted([name for name, value in globals().items() if getattr(value, "__module__", "") == __name__])
NAMES += ["beam_search", "block_tables", "decode_runner", "overlap_streams", "prefetch_scorer"]


def drive(name):
    torch.manual_seed(0)
    module = importlib.import_module(name)
    own = globals().get(name)
    if own is not None:
        own(module)
    else:
        getattr(module, {"block_tables": "drive", "overlap_streams": "match_once"}.get(name, "main"))()


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or NAMES
    for name in sys.argv[1:]:
        process = multiprocessing.get_context("fork").Process(target=drive, args=(name,))
        process.start()
        process.join()
        print(name, process.exitcode, flush=True)
