"""A small transformer that reads text byte by byte and predicts each next byte.

Two blocks of attention and a feed-forward layer, each after a layer norm, as in Radford et al.,
"Language models are unsupervised multitask learners" (2019); the output shares the weights of the
embedding.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from demo_models.dataset import Dataset
from demo_models.model import TEXT_DATA, Model, ModelCard
from demo_models.texts import SYMBOLS, WINDOW


class Block(nn.Module):
    """Attention to earlier bytes, then a feed-forward layer; both are added to their input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attention = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(n, length, width))
        output: Tensor = x + self.down(gelu(self.up(self.norm2(x))))
        return output


class ByteTransformer(Model):
    """int64 (n, t) bytes -> float32 (n, 128, t) scores of each next byte; t at most 64.

    Parameters with the defaults: 112,384.
    """

    def __init__(self, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.byte = nn.Embedding(SYMBOLS, width)
        self.place = nn.Embedding(WINDOW, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, text: Tensor) -> Tensor:
        x = self.blocks(self.byte(text) + self.place.weight[: text.shape[1]])
        return linear(self.norm(x), self.byte.weight).transpose(1, 2)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw matrices with a small spread; norms begin as the identity, biases at zero."""
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02, generator=generator)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.05, generator=generator)
                nn.init.zeros_(module.bias)


def _build(_: Dataset) -> ByteTransformer:
    return ByteTransformer()


CARD = ModelCard(
    name="byte-transformer",
    title="Byte transformer",
    sentence="Two blocks of attention predict the next byte of a text.",
    parameters="112,384",
    data=TEXT_DATA,
    side=None,
    build=_build,
    optimizers={"sgd": (0.1, 0.9), "adam": (0.001, 0.0)},
    batch_size=16,
    lab_lr=0.05,
    lab_batch_size=32,
)
