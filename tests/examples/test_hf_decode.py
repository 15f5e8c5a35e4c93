"""The transformers examples build from their configurations and decode from a cache that holds a prompt."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.child
pytest.importorskip("transformers", minversion="5.17")


@pytest.mark.parametrize("factory", ["llama", "gpt2", "mixtral", "qwen3_moe", "opt"])
def test_a_step_reads_and_extends_the_cache(factory: str) -> None:
    import hf_decode

    torch.manual_seed(1)
    step, (token,) = getattr(hf_decode, factory)(torch.device("cpu"), batch=2, length=16)
    first, second = step(token), step(token)
    assert first.shape == (2, 1, hf_decode.VOCABULARY)
    assert not torch.equal(first, second)
    assert int(step.cache.layers[0].cumulative_length) == hf_decode.PROMPT + 2
