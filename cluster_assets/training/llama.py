"""Llama 3 in PyTorch: sizes as data, the model, its loss and its FLOPs.

Parameters have the names that Hugging Face gives them, so weights are exchanged without a table of names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint as recompute

LOSS_ROWS = 8192  # rows of logits that are turned into gradients at a time


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a model. `rope_factor` 1 means rotary positions without Llama 3.1's scaling."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int = 128_256
    tied: bool = False
    eps: float = 1e-5
    theta: float = 500_000.0
    rope_factor: float = 8.0
    rope_low: float = 1.0
    rope_high: float = 4.0
    rope_original: int = 8192

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "kv_heads", "hidden", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: give 1 or more")
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(f"width {self.width} with {self.heads} heads: a head's width must be a whole, even number")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads are not a multiple of {self.kv_heads} key and value heads")

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    def flops_per_token(self, parameters: int, length: int) -> float:
        """Floating-point operations of the model per trained token, forward and backward.

        6 x (parameters in matrix products) + 6 x layers x width x length. The input embedding is a look-up and not
        counted, unless it is tied to the output. Attention is counted as causal: half of the length x length matrix.
        Recomputed activations are not counted. torchtitan and PaLM count 12 x layers x width x length for attention.
        """
        matrices = parameters if self.tied else parameters - self.vocabulary * self.width
        return 6.0 * matrices + 6.0 * self.layers * self.width * length


# debug: for tests and CPUs. 1b and 3b: Llama 3.2; 8b and 70b: Llama 3.1.
CONFIGURATIONS = {
    "debug": LlamaConfig(64, 2, 4, 2, 128, vocabulary=512, tied=True),
    "1b": LlamaConfig(2048, 16, 32, 8, 8192, tied=True, rope_factor=32.0),
    "3b": LlamaConfig(3072, 28, 24, 8, 8192, tied=True, rope_factor=32.0),
    "8b": LlamaConfig(4096, 32, 32, 8, 14336),
    "70b": LlamaConfig(8192, 80, 64, 8, 28672),
}


def from_hugging_face(found: dict[str, Any]) -> LlamaConfig:
    """The sizes in a Hugging Face config.json.

    Raises:
        ValueError: another architecture, or a kind of rotary positions that this model does not have.
    """
    if found.get("model_type") != "llama":
        raise ValueError(f"model_type {found.get('model_type')!r}: this trainer has Llama only")
    rope = found.get("rope_parameters") or {**(found.get("rope_scaling") or {}), "rope_theta": found.get("rope_theta")}
    kind = rope.get("rope_type", "default")
    if kind not in ("default", "llama3"):
        raise ValueError(f"rope_type {kind!r}: give a model with 'default' or 'llama3'")
    try:
        config = LlamaConfig(
            width=found["hidden_size"],
            layers=found["num_hidden_layers"],
            heads=found["num_attention_heads"],
            kv_heads=found.get("num_key_value_heads") or found["num_attention_heads"],
            hidden=found["intermediate_size"],
            vocabulary=found["vocab_size"],
            tied=bool(found.get("tie_word_embeddings", False)),
            eps=float(found.get("rms_norm_eps", 1e-6)),
            theta=float(rope.get("rope_theta") or 10_000.0),
            rope_factor=float(rope["factor"]) if kind == "llama3" else 1.0,
            rope_low=float(rope.get("low_freq_factor", 1.0)),
            rope_high=float(rope.get("high_freq_factor", 4.0)),
            rope_original=int(rope.get("original_max_position_embeddings", 8192)),
        )
    except KeyError as missing:
        raise ValueError(f"no {missing} in it") from missing
    if found.get("head_dim", config.head_width) != config.head_width:
        raise ValueError(f"head_dim {found['head_dim']}: this model has width / heads = {config.head_width}")
    return config


def to_hugging_face(config: LlamaConfig) -> dict[str, Any]:
    """The config.json that transformers reads."""
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": config.theta}
    if config.rope_factor != 1.0:
        rope |= {
            "rope_type": "llama3",
            "factor": config.rope_factor,
            "low_freq_factor": config.rope_low,
            "high_freq_factor": config.rope_high,
            "original_max_position_embeddings": config.rope_original,
        }
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_width,
        "intermediate_size": config.hidden,
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": config.tied,
        "rms_norm_eps": config.eps,
        "hidden_act": "silu",
        "max_position_embeddings": int(config.rope_original * config.rope_factor),
        # transformers 5 reads rope_parameters, older versions the other two.
        "rope_parameters": rope,
        "rope_theta": config.theta,
        "rope_scaling": None if config.rope_factor == 1.0 else rope,
    }


def rotary(config: LlamaConfig, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the positions, [length, head width / 2] each, low frequencies scaled as by Llama 3.1."""
    half = torch.arange(0, config.head_width, 2, device=device, dtype=torch.float32) / config.head_width
    frequency = config.theta**-half
    if config.rope_factor != 1.0:
        turns = config.rope_original * frequency / (2 * math.pi)  # full turns within the original context
        smooth = ((turns - config.rope_low) / (config.rope_high - config.rope_low)).clamp(0, 1)
        frequency = frequency * (smooth + (1 - smooth) / config.rope_factor)
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), frequency)
    return angles.cos(), angles.sin()


def rotate(inputs: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the halves of each head, [batch, heads, length, head width], by their position's angle."""
    first, second = inputs.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.type_as(inputs)


class Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Causal attention in which several query heads share one key and value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_width = config.head_width
        narrow = config.kv_heads * config.head_width
        self.q_proj = nn.Linear(config.width, config.width, bias=False)
        self.k_proj = nn.Linear(config.width, narrow, bias=False)
        self.v_proj = nn.Linear(config.width, narrow, bias=False)
        self.o_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, inputs: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, width = inputs.shape
        query, key, value = (
            layer(inputs).view(batch, length, -1, self.head_width).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(attended.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):  # type: ignore[misc, unused-ignore]
    """SwiGLU."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(inputs)) * self.up_proj(inputs))


class Block(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention and feed-forward, each on normalised input and with a residual connection."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.eps)
        self.mlp = FeedForward(config)
        self.recompute = False

    def forward(self, inputs: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        if self.recompute and self.training:
            return recompute(self._forward, inputs, cosine, sine, use_reentrant=False)
        return self._forward(inputs, cosine, sine)

    def _forward(self, inputs: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        inputs = inputs + self.self_attn(self.input_layernorm(inputs), cosine, sine)
        return inputs + self.mlp(self.post_attention_layernorm(inputs))


def loss_and_gradient(logits: Tensor, targets: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Sum of the cross entropies of some rows, and the gradient of the scaled sum."""
    values = logits.float()
    normaliser = values.logsumexp(dim=-1, keepdim=True)
    wanted = torch.arange(values.shape[-1], device=values.device) == targets[:, None]
    gradient = ((values - normaliser).exp() - wanted.to(values.dtype)) * scale
    losses = normaliser[:, 0] - values.gather(1, targets[:, None])[:, 0]
    return losses.sum(), gradient.to(logits.dtype)


class HeadLoss(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """Mean cross entropy of a linear layer's logits.

    The forward pass replaces the logits by their gradient, some rows at a time, so that the largest tensor of the model
    exists once and is read once.
    """

    compute: Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]] = loss_and_gradient  # or compiled

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:  # noqa: ANN401
        weight = weight.to(hidden.dtype)
        logits = hidden @ weight.t()
        total = torch.zeros((), device=hidden.device, dtype=torch.float32)
        for rows, wanted in zip(logits.split(LOSS_ROWS), targets.split(LOSS_ROWS), strict=True):
            loss, gradient = HeadLoss.compute(rows, wanted, 1.0 / len(targets))
            rows.copy_(gradient)
            total += loss
        ctx.save_for_backward(hidden, weight, logits)
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        hidden, weight, gradient = ctx.saved_tensors
        return (gradient @ weight) * scale.to(weight.dtype), (gradient.t() @ hidden) * scale.to(weight.dtype), None


class Llama(nn.Module):  # type: ignore[misc, unused-ignore]
    """Logits of the next token; with targets, the mean loss."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.model.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.model.norm = nn.RMSNorm(config.width, eps=config.eps)
        if not config.tied:
            self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self._rotary: tuple[Tensor, Tensor] | None = None

    def initialise(self, seed: int) -> None:
        """Random weights, the same for any number of processes; the layers that end a branch get smaller ones."""
        for number, (name, parameter) in enumerate(self.named_parameters()):
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            if parameter.dim() == 1:
                local.detach().fill_(1.0)
                continue
            std = 0.02 / (
                math.sqrt(2 * self.config.layers) if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
            )
            whole = torch.empty(parameter.shape, device=local.device)
            random = torch.Generator(local.device).manual_seed(seed * 100_003 + number)
            nn.init.trunc_normal_(whole, std=std, a=-3 * std, b=3 * std, generator=random)
            if isinstance(parameter, DTensor):
                whole = distribute_tensor(
                    whole, parameter.device_mesh, parameter.placements, src_data_rank=None
                ).to_local()
            local.detach().copy_(whole)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        length = tokens.shape[1]
        if self._rotary is None or len(self._rotary[0]) != length or self._rotary[0].device != tokens.device:
            self._rotary = rotary(self.config, length, tokens.device)
        hidden = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            hidden = block(hidden, *self._rotary)
        hidden = self.model.norm(hidden)
        weight = self.model.embed_tokens.weight if self.config.tied else self.lm_head.weight
        if targets is None:
            return functional.linear(hidden, weight)
        return HeadLoss.apply(hidden.flatten(0, 1), weight, targets.flatten())


def to_float8(model: Llama, device: torch.device) -> None:
    """Replace the layers' linear modules by torchao's float8 ones. Raises SystemExit where that cannot work."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (9, 0):
        raise SystemExit("train.py: --float8 needs a GPU of the Hopper generation or later (H100, H200): leave it out")
    try:
        from torchao.float8 import convert_to_float8_training
    except ImportError as error:
        raise SystemExit(
            f"train.py: --float8 needs torchao ({error}): use an image with it, or leave it out"
        ) from error
    convert_to_float8_training(model.model.layers)
