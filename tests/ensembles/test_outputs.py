from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch

from calmix.ensembles.outputs import take_logits
from calmix.errors import InputError

LOGITS = torch.arange(6.0).reshape(2, 3)
Named = namedtuple("Named", ["loss", "logits"])


@dataclass
class Record:
    logits: torch.Tensor


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (LOGITS, None),
        ({"logits": LOGITS}, "logits"),
        (Record(LOGITS), "logits"),
        (Named(None, LOGITS), "logits"),
        (Named(None, LOGITS), 1),
        ((None, LOGITS), -1),
        ([LOGITS, None], 0),
        ({"a": {"b": LOGITS}}, lambda result: result["a"]["b"]),
    ],
)
def test_logits_are_taken(result, output):
    assert take_logits(result, output, 2, "Net") is LOGITS


@pytest.mark.parametrize(
    ("result", "output", "complaint"),
    [
        (
            {"loss": None, "logits": LOGITS},
            None,
            r'Net returned a dict, not a tensor; .*output="logits" \(it has',
        ),
        ({"out": LOGITS}, None, r'output="out"'),
        ((None, LOGITS), None, r"Net returned a tuple.*output=1"),
        (Named(None, LOGITS), None, r'output="logits" \(it has loss, logits\)'),
        (Record(LOGITS), None, r"Net returned a Record.*attribute, or a callable"),
        ({"out": LOGITS}, "logits", r"""without output='logits'; try output="out" """),
        (Record(LOGITS), "scores", r"Net returned a Record without output='scores'"),
        ((LOGITS,), 3, r"Net returned a tuple without output=3; try output=0"),
        (LOGITS, "logits", r"Net returned a Tensor without output='logits'; try output=None"),
        ({"logits": None}, "logits", r"Net returned a NoneType as output='logits', not a tensor"),
        (LOGITS.T, None, r"Net made \(3, 2\) of 2 rows"),
        (LOGITS.sum(), None, r"Net made \(\) of 2 rows"),
    ],
)
def test_what_is_no_logits_is_refused_with_a_suggestion(result, output, complaint):
    with pytest.raises(InputError, match=complaint):
        take_logits(result, output, 2, "Net")
