"""What only a real GPU can show."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from .conftest import GPUS, ROOT, TARGETS, Prove, codes_of, probes_of  # noqa: E402

pytestmark = [pytest.mark.child, pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a GPU")]
EXAMPLES = ROOT / "examples"
HF = {"llama": "ready", "gpt2": "ready", "mixtral": "ready", "qwen3_moe": "ready", "opt": "not-ready"}


def test_one_decode_step_of_transformers_models(prove: Prove) -> None:
    pytest.importorskip("transformers", minversion="5.17")
    reports = prove([f"{EXAMPLES / 'hf_decode.py'}:{name}" for name in HF], "cuda:0", root=EXAMPLES)
    assert {name: report["verdict"] for name, report in zip(HF, reports, strict=True)} == HF
    assert all(finding["location"]["path"] for report in reports for finding in report["findings"])


def test_a_graph_has_nodes_bytes_and_a_time(prove: Prove) -> None:
    [report] = prove([f"{EXAMPLES / 'decoder_good.py'}:build_layer"], "cuda:0", root=EXAMPLES)
    probes = probes_of(report)
    assert report["evidence"] == "measured"
    assert probes["capture"]["nodes"]["kernel"] > 10
    assert probes["memory"]["pool_bytes"] > 0
    assert probes["timing"]["eager_ms"] > 0 and probes["timing"]["graph_ms"] > 0
    assert probes["timing"]["launches"] > 10


def test_a_step_in_time_has_lines_gaps_and_a_replay(prove: Prove) -> None:
    names = [f"{EXAMPLES / 'decoder_good.py'}:build_layer", f"{EXAMPLES / 'decoder_bad.py'}:build_layer"]
    good, bad = (probes_of(report) for report in prove(names, "cuda:0", root=EXAMPLES, timeline=True))
    for probes in (good, bad):
        timeline = probes["timeline"]
        launches = [one for one in timeline["operations"] if one["kind"] == "launch"]
        kernels = [one for one in timeline["operations"] if one["kind"] == "kernel"]
        assert timeline["status"] == "pass" and len(launches) == len(kernels) > 10
        assert all(one["place"] for one in launches)
        assert 0 < timeline["busy_us"] < timeline["step_us"]
        assert sum(gap["us"] for gap in timeline["gaps"]) <= timeline["step_us"] - timeline["busy_us"]
    assert good["timeline"]["replay_us"] > 0 and {one["kind"] for one in good["timeline"]["replay"]} >= {"kernel"}
    waits = [one for one in bad["timeline"]["operations"] if one["kind"] == "wait"]
    assert waits and all(one["place"] and one["behind_us"] <= one["us"] for one in waits)
    assert "wait" in {gap["cause"] for gap in bad["timeline"]["gaps"]}


def test_a_compiled_step_is_ready(prove: Prove) -> None:
    [report] = prove([f"{TARGETS / 'silent.py'}:compiled"], "cuda:0")
    assert report["verdict"] == "ready"
    assert probes_of(report)["capture"]["nodes"]["kernel"] >= 2


@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_the_second_gpu_and_all_of_them(prove: Prove) -> None:
    good, stale = f"{EXAMPLES / 'decoder_good.py'}:build_layer", f"{TARGETS / 'silent.py'}:host_counter"
    second, wrong = prove([good, stale], "cuda:1", root=EXAMPLES)
    assert (second["verdict"], second["devices"][0]["device"]) == ("ready", "cuda:1")
    assert (wrong["verdict"], codes_of(wrong, "error")) == ("not-ready", ["GS702"])
    [every] = prove([good], "all", root=EXAMPLES)
    assert [(device["device"], device["verdict"]) for device in every["devices"]] == [
        (f"cuda:{index}", "ready") for index in range(GPUS)
    ]
