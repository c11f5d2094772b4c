"""Records logits of transformers' Llama, which test_trainer.py compares with ours.

    python record_reference.py    writes reference.json; needs torch and transformers

Weights and tokens are formulas, so that they are the same in every version of PyTorch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "cluster_assets" / "training"))
LENGTH = 300
PLACES = (0, 1, 50, 299)
IDS = (0, 7, 255, 511)


def fill(model: torch.nn.Module) -> None:
    """Large enough weights that attention and positions matter."""
    with torch.no_grad():
        for number, (name, weight) in enumerate(sorted(model.named_parameters())):
            values = torch.arange(weight.numel(), dtype=torch.float64).reshape(weight.shape)
            values = (values * (1.1 + number / 7)).sin() * (0.5 if "embed" in name else 0.15)
            weight.copy_(values + (weight.dim() == 1))


def tokens() -> torch.Tensor:
    """Two sequences."""
    return (torch.arange(2 * LENGTH) * 37 % 509).reshape(2, LENGTH)


def picked(logits: torch.Tensor) -> list[Any]:
    """Some of the logits."""
    return list(logits[:, list(PLACES)][:, :, list(IDS)].double().tolist())


def main() -> None:
    """Write reference.json."""
    import transformers
    from llama import CONFIGURATIONS, to_hugging_face

    settings = to_hugging_face(CONFIGURATIONS["debug"])
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).eval()
    fill(model)
    with torch.no_grad():
        logits = picked(model(tokens()).logits)
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    (HERE / "reference.json").write_text(json.dumps({"versions": versions, "logits": logits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
