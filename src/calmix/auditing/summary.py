"""What an audit keeps of an ensemble's logits: one pass in blocks, sums and one number per example."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.metrics.binning import Cells, equal_width
from calmix.metrics.errors import mean_error

BLOCK = 1 << 17  # logits of a member that are read at a time
BINS = 15  # of the members' ECE
MIN_LOGIT = -1e4  # relative to the row's largest; its probability is 0 in float64


@dataclass(frozen=True, eq=False)
class GapSums:
    """Sums over examples from which a gap = mean(hit - confidence) and its interval follow, any shape."""

    count: Tensor
    difference: Tensor
    square: Tensor
    confidence: Tensor

    @property
    def gap(self) -> Tensor:
        return self.difference / self.count


@dataclass(frozen=True, eq=False)
class Summary:
    """The pool's probabilities (N, C) in float64; of each example (N,) its confidence, prediction and hit,
    NLL, Brier score and entropies; of each class (C,) sums of P(k); of each member (M,) its sums.

    `member_confidence` and `member_hit` (N,) are means over the members. `true_class_gaps` (1 + M, C) are of
    the pool and of each member, over the examples of each true class; nan where it has none.
    """

    probs: Tensor
    labels: Tensor
    confidence: Tensor
    prediction: Tensor
    hit: Tensor
    nll: Tensor
    brier: Tensor
    total_entropy: Tensor
    data_entropy: Tensor
    class_total: Tensor
    class_square: Tensor
    class_label_total: Tensor
    class_count: Tensor
    member_confidence: Tensor
    member_hit: Tensor
    member_gaps: GapSums
    member_ece: Tensor
    member_accuracy: Tensor
    true_class_gaps: Tensor

    @property
    def examples(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return self.probs.shape[1]

    @property
    def members(self) -> int:
        return len(self.member_ece)

    @property
    def binary(self) -> bool:
        return self.classes == 2


def summarise(logits: Tensor, labels: Tensor) -> Summary:
    """Read logits (M, N, C) once, `BLOCK` values at a time, in float64: in float32 a confident mistake has
    probability 0."""
    members, examples, classes = logits.shape
    probs = torch.empty(examples, classes, dtype=torch.float64)
    confidence, hit, nll, brier, total, data, member_confidence, member_hit = torch.zeros(
        8, examples, dtype=torch.float64
    )
    prediction = torch.empty(examples, dtype=torch.long)
    class_sums = torch.zeros(3, classes, dtype=torch.float64)
    cells = torch.zeros(members, 3, BINS, dtype=torch.float64)
    sums = torch.zeros(members, 3, dtype=torch.float64)
    by_class = torch.zeros(1 + members, classes, dtype=torch.float64)
    bins = equal_width(BINS)
    rows = max(1, BLOCK // classes)
    for start in range(0, examples, rows):
        part = slice(start, start + rows)
        y = labels[part]
        pooled = probs[part]
        at_label = torch.empty(members, len(y), dtype=torch.float64)
        for m in range(members):
            z = logits[m, part].to(torch.float64, copy=True)
            top, guess = z.max(1)
            z -= top[:, None]
            at_label[m] = z.gather(1, y[:, None])[:, 0]
            z.clamp_(min=MIN_LOGIT)
            e = z.exp()
            scale = e.sum(1)
            log_scale = scale.log()
            at_label[m] -= log_scale
            data[part] += log_scale - z.mul_(e).sum(1) / scale
            e /= scale[:, None]
            if m == 0:
                pooled.copy_(e)
            else:
                pooled += e
            sure, right = 1 / scale, (guess == y).double()
            difference = right - sure
            member_confidence[part] += sure
            member_hit[part] += right
            sums[m] += torch.stack([difference.sum(), difference.square().sum(), sure.sum()])
            cell = bins(sure[:, None], False)[:, 0].long()
            cells[m, 0] += cell.bincount(minlength=BINS)
            cells[m, 1] += cell.bincount(sure, minlength=BINS)
            cells[m, 2] += cell.bincount(right, minlength=BINS)
            by_class[1 + m] += y.bincount(difference, minlength=classes)
        pooled /= members
        sure, guess = pooled.max(1)
        right = (guess == y).double()
        confidence[part], prediction[part], hit[part] = sure, guess, right
        by_class[0] += y.bincount(right - sure, minlength=classes)
        nll[part] = math.log(members) - at_label.logsumexp(0)
        squares = pooled.square()
        label_probs = pooled.gather(1, y[:, None])[:, 0]
        brier[part] = squares.sum(1) - 2 * label_probs + 1
        class_sums[0] += pooled.sum(0)
        class_sums[1] += squares.sum(0)
        class_sums[2] += y.bincount(label_probs, minlength=classes)
        if members > 1:
            total[part] = torch.special.entr(pooled).sum(1)
    data /= members
    count = labels.bincount(minlength=classes).double()
    size = torch.full((members,), examples, dtype=torch.float64)
    return Summary(
        probs=probs,
        labels=labels,
        confidence=confidence,
        prediction=prediction,
        hit=hit,
        nll=nll.clamp_(min=0),
        brier=brier.clamp_(min=0),
        # Entropy is concave: only rounding makes the pool's smaller than the mean of its members'.
        total_entropy=torch.maximum(total, data) if members > 1 else data,
        data_entropy=data,
        class_total=class_sums[0],
        class_square=class_sums[1],
        class_label_total=class_sums[2],
        class_count=count,
        member_confidence=member_confidence.div_(members),
        member_hit=member_hit.div_(members),
        member_gaps=GapSums(size, *sums.T),
        member_ece=torch.stack([mean_error(Cells(*part[:, None])) for part in cells]),
        member_accuracy=cells[:, 2].sum(1) / examples,
        true_class_gaps=by_class / count,
    )
