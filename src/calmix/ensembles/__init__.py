"""Ensembles as modules: one call, x (B, ...) -> logits (members, B, classes)."""

from calmix.ensembles.batch import BatchEnsemble
from calmix.ensembles.deep import DeepEnsemble
from calmix.ensembles.dropout import MCDropout
from calmix.ensembles.groups import parameter_groups
from calmix.ensembles.keyed import key_dropout, keyed_dropout
from calmix.ensembles.norm import synchronise

__all__ = [
    "BatchEnsemble",
    "DeepEnsemble",
    "MCDropout",
    "key_dropout",
    "keyed_dropout",
    "parameter_groups",
    "synchronise",
]
