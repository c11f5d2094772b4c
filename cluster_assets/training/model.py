"""A small transformer that predicts the next byte, and its training data; both are determined by the seed."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 256


class Block(nn.Module):  # type: ignore[misc, unused-ignore]
    """Causal attention and a feed-forward layer, both on normalised input and with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.before_layer = nn.LayerNorm(width)
        self.layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        batch, length, width = inputs.shape
        parts = self.attention(self.before_attention(inputs)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        inputs = inputs + self.joined(attended.transpose(1, 2).reshape(batch, length, width))
        return inputs + self.layer(self.before_layer(inputs))


class ByteModel(nn.Module):  # type: ignore[misc, unused-ignore]
    """Logits of the next byte, for each position of a batch of bytes."""

    def __init__(self, *, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, batch: Tensor) -> Tensor:
        places = torch.arange(batch.shape[1], device=batch.device)
        hidden = self.bytes(batch) + self.positions(places)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.last(hidden))


class Samples:
    """Pieces of text, chosen by step and position in the global batch: independent of processes and restarts."""

    def __init__(self, source: Path | None, *, length: int, seed: int) -> None:
        content = source.read_bytes() if source else _generated(seed)
        if len(content) <= length + 1:
            raise ValueError(f"the text has {len(content)} bytes; a sample takes {length + 1}")
        self.content = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.length, self.seed = length, seed

    def batch(self, step: int, first: int, count: int, total: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of samples `first` to `first + count` of a step's `total`."""
        rows = []
        for number in range(first, first + count):
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step * total + number)
            start = int(torch.randint(len(self.content) - self.length - 1, (1,), generator=generator))
            rows.append(self.content[start : start + self.length + 1])
        samples = torch.stack(rows).long()
        return samples[:, :-1], samples[:, 1:]


def _generated(seed: int) -> bytes:
    """Learnable text: words in a random order."""
    words = ("node ", "rank ", "step ", "loss ", "queue ", "lustre ", "gradient ", "checkpoint ")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randint(len(words), (20_000,), generator=generator).tolist()
    return "".join(words[index] for index in order).encode()
