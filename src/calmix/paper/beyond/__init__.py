"""Questions that the paper leaves open, each an item with its runs, tables and figures."""

from calmix.paper.beyond.compounding import compounding
from calmix.paper.beyond.crossing import crossing
from calmix.paper.beyond.cure import cure
from calmix.paper.beyond.methods import beyond
from calmix.paper.beyond.noise import noise
from calmix.paper.beyond.validation_size import validation_size

BEYOND_ITEMS = (beyond, crossing, compounding, cure, validation_size, noise)
