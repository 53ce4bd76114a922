"""Small versions of common architectures, written as torchvision, timm and textbooks write them."""

import torch
import torch.nn.functional as F
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = LayerNorm2d(width)
        self.expand, self.project = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, width, 1)
        self.gamma = nn.Parameter(torch.full((width, 1, 1), 0.1))

    def forward(self, x):
        return x + self.gamma * self.project(F.gelu(self.expand(self.norm(self.depthwise(x)))))


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), LayerNorm2d(8))
        self.blocks = nn.Sequential(ConvNeXtBlock(8), ConvNeXtBlock(8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    """As timm has it: one linear layer for queries, keys and values, fused attention."""

    def __init__(self, width, dropout):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_drop = nn.Dropout(dropout)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).reshape(rows, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        p = self.attn_drop.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.proj(out.transpose(1, 2).reshape(rows, length, width))


class ViTBlock(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, dropout)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 17, 8) * 0.1)
        self.blocks = nn.Sequential(ViTBlock(8, dropout), ViTBlock(8, dropout))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class TransformerClassifier(nn.Module):
    def __init__(self, dropout=0.0, batch_first=True):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first)
        self.head = nn.Linear(8, 3)

    def forward(self, ids, mask=None):
        x = self.encoder(self.embed(ids), src_key_padding_mask=mask)
        return self.head(x[:, 0])


class LSTMClassifier(nn.Module):
    def __init__(self, kind=nn.LSTM, dropout=0.0, batch_first=True, packed=False):
        super().__init__()
        self.batch_first, self.packed = batch_first, packed
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.lstm = kind(8, 6, 2, batch_first=batch_first, bidirectional=True, dropout=dropout)
        self.head = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, ids):
        x = self.embed(ids)
        x = x if self.batch_first else x.transpose(0, 1)
        if self.packed:
            lengths = ids.ne(0).sum(1)
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=False)
        state = self.lstm(x)[1]
        state = state[0] if isinstance(state, tuple) else state
        return self.head(torch.cat([state[-2], state[-1]], 1))


class PReLUNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 6, 3), nn.PReLU(6), nn.Flatten(), nn.Linear(6 * 14 * 14, 3), nn.PReLU())


class Segmenter(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.ConvTranspose2d(6, 3, 2, 2)
        )


def images(*rows):
    return torch.rand(*rows, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def token_ids(*rows):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 30, (*rows, 6), generator=generator)
    ids[..., 4:] *= torch.randint(2, (*rows, 1), generator=generator)
    return ids
