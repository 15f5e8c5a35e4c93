"""Compare the oracle and `graphsafe capture` on steps of libraries on which graphsafe was not tuned.

Every factory in library_targets/ is a target: graph nets, vision, audio, Gaussian processes, solvers, metrics, sentence
embeddings, training loops and samplers. If the library of a target is missing or has another interface, the target is
left out, and the log says why. If a capture fails, the line to blame is the innermost line of the target's file or of
its libraries in the trace of the first error. For silent errors, no line is known.

library_targets/untouched/, third/, fourth/, fifth/ and sixth/ contain steps of other libraries. They only measure the
accuracy of scan (library_truth.py, scan/library_accuracy.py).

    python benchmarks/capture/library_steps.py --out FOLDER             # a GPU with 16 cores: three to five minutes
    python benchmarks/capture/library_steps.py --device sim --truth FOLDER/library-steps.json
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.agreement import Case, carry_out, parser

TARGETS = Path(__file__).resolve().parent / "library_targets"


@dataclass(frozen=True, slots=True)
class Part:
    """Files with steps, and the packages whose code these steps run."""

    folder: Path
    libraries: tuple[str, ...]


NINE = Part(
    TARGETS,
    (
        *("torch_geometric", "torchvision", "torchaudio", "gpytorch", "linear_operator", "botorch", "torchdiffeq"),
        *("torchmetrics", "sentence_transformers", "accelerate"),
    ),
)
WAYS = Part(TARGETS.parent / "library_ways", NINE.libraries)
"Steps that take other paths through the code of the nine libraries, with options that the steps of `NINE` do not use."
UNTOUCHED = Part(
    TARGETS / "untouched",
    (
        *("diffusers", "pytorch_metric_learning", "piq", "pytorch_optimizer", "e3nn", "kornia", "speechbrain"),
        *("vector_quantize_pytorch", "x_transformers", "torch_einops_utils", "torchsde", "pyro"),
    ),
)
THIRD = Part(
    TARGETS / "third",
    (
        *("timm", "segmentation_models_pytorch", "open_clip", "lpips", "captum", "torchattacks", "monai", "auraloss"),
        *("julius", "torch_audiomentations", "torch_pitch_shift", "asteroid_filterbanks", "ignite", "ema_pytorch"),
        *("zuko", "nflows", "denoising_diffusion_pytorch", "geoopt", "egnn_pytorch", "torchcde", "geomloss"),
        *("torch_kmeans", "torchcrf", "peft"),
    ),
)
FOURTH = Part(
    TARGETS / "fourth",
    (
        *("pytorch_msssim", "entmax", "torchmin", "schedulefree", "prodigyopt", "torchjd", "normflows", "pypose"),
        *("pytorch_kinematics", "opacus", "pytorch_tabnet", "lightly", "local_attention", "reformer_pytorch"),
        *("st_moe_pytorch", "ultralytics", "stable_baselines3", "skrl", "torchrl", "tensordict", "pykeen", "neuralop"),
    ),
)
SIXTH = Part(
    TARGETS / "sixth",
    (
        *("backpack", "dadaptation", "diffsort", "easyfsl", "fast_pytorch_kmeans", "gluonts", "higher", "hypll", "kan"),
        *("mambapy", "mpc", "ncps", "neurodiffeq", "norse", "pytorch_mppi", "pytorch_ood", "rectified_flow_pytorch"),
        *("rsl_rl", "tad_dftd3", "tad_mctc", "torchdeq", "torchdr", "torchflows", "torchfm", "torchlibrosa"),
        *("torchnlp", "torchnmf", "torchsparsegradutils", "gfn", "libauc"),
    ),
)
SEVENTH = Part(
    TARGETS / "seventh",
    (
        *("bayesian_torch", "brevitas", "came_pytorch", "coral_pytorch", "easy_tpp", "esm", "evox", "flowtorch"),
        *("kmeans_pytorch", "ltn", "mdot_tnt", "pfrl", "pyhessian", "pyqtorch", "pytorch_tcn", "recsys_metrics"),
        *("snac", "tensorkrowch", "torch_cubic_spline_grids", "torch_kf", "torch_pca", "torchani", "torchcam"),
        *("torchebm", "torchfsm", "torchpme", "torcwa"),
    ),
)
EIGHTH = Part(
    TARGETS / "eighth",
    (
        *("azula", "torchvine", "vbll", "zflows", "optimi", "swarmtorch", "betty"),
        *("unit_scaling", "nngeometry", "torch_pruning", "torchbearer", "interpol", "cliffordlayers", "lgatr"),
        *("xnn", "complextorch", "torchrir", "ci_sdr", "mtst", "autolrp", "torch_ac"),
        *("pfhedge", "proxy_losses", "torchdde", "neural_ssm", "auto_esn", "spikingjelly", "torch_sla"),
    ),
)
NINTH = Part(
    TARGETS / "ninth",
    (
        *("torchzero", "heavyball", "cooper", "conflictfree", "fairret", "torch_secorder", "dattri"),
        *("s5", "colt5_attention", "perceiver_pytorch", "tft_torch", "memcnn", "lycoris", "torchcvnn"),
        *("frame_averaging_pytorch", "torchao", "tntorch", "cola", "proxtorch", "torch_treecrf", "pytorch_partial_crf"),
        *("pyknos", "dasp_pytorch", "torch_ctf", "torch_fourier_slice", "torch_dxdt", "torchstain", "torch_cfd"),
    ),
)
TENTH = Part(
    TARGETS / "tenth",
    (
        *("foolbox", "cleverhans", "ttach", "laplace", "curvlinops", "tensorly", "einx", "cuequivariance_torch"),
        *("torch_dftd", "torch_complex", "poutyne", "prodigyplus", "torch_ema", "loralib", "compressed_tensors"),
        *("mct_quantizers", "tomesd", "curated_transformers", "rwkv", "rotary_embedding_torch", "timesfm"),
        *("efficientnet_pytorch", "conformer", "alias_free_torch"),
    ),
)
ELEVENTH = Part(
    TARGETS / "eleventh",
    (
        *("adabelief_pytorch", "adam_atan2_pytorch", "adan_pytorch", "assoc_scan", "axial_attention"),
        *("axial_positional_embedding", "bidirectional_cross_attention", "compressive_transformer_pytorch"),
        *("focal_loss", "g_mlp_pytorch", "gateloop_transformer", "grokfast_pytorch", "h_transformer_1d"),
        *("hyper_connections", "info_nce", "invariant_point_attention", "isab_pytorch"),
        *("linear_attention_transformer", "linformer", "lion_pytorch", "madgrad"),
        *("memory_efficient_attention_pytorch", "mixture_of_experts", "nystrom_attention", "product_key_memory"),
        *("pytorch_ranger", "pytorch_revgrad", "pytorch_warmup", "recurrent_memory_transformer_pytorch"),
        *("routing_transformer", "sinkhorn_transformer", "siren_pytorch", "soft_moe_pytorch", "sparsemax"),
        *("taylor_series_linear_attention", "torch_dct", "torch_tps", "torchbnn"),
    ),
)
PARTS = {
    "nine": NINE,
    "ways": WAYS,
    "untouched": UNTOUCHED,
    "third": THIRD,
    "fourth": FOURTH,
    "sixth": SIXTH,
    "seventh": SEVENTH,
    "eighth": EIGHTH,
    "ninth": NINTH,
    "tenth": TENTH,
    "eleventh": ELEVENTH,
}
STATEFUL = ("running_error", "policy_gradient")
"Steps whose outputs also depend on earlier inputs, as the outputs of training steps do."


def factories(file: Path) -> list[str]:
    """Return the names of functions whose only parameter is the device, and of variables that hold such functions."""
    names = []
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        is_factory = isinstance(statement, ast.FunctionDef) and ast.unparse(statement.args) == "device"
        if is_factory and not statement.name.startswith("_"):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return names


def cases(part: Part = NINE) -> list[Case]:
    specs = [importlib.util.find_spec(name) for name in part.libraries]
    roots = [str(Path(spec.origin).parent) for spec in specs if spec and spec.origin]
    return [
        Case(name, f"{file}:{name}", pure=name not in STATEFUL and "training" not in name, root=os.pathsep.join(roots))
        for file in sorted(part.folder.glob("*.py"))
        for name in factories(file)
    ]


if __name__ == "__main__":
    carry_out(cases(), parser(__doc__).parse_args(), "library-steps", together=12)
