"""The example runs, shrunk to seconds, and its methods are those of its table."""

import runpy
from pathlib import Path


def test_a_row_for_every_method(capsys):
    path = Path(__file__).parents[2] / "examples" / "oscillation.py"
    names = runpy.run_path(str(path))
    names["main"].__globals__.update(EPOCHS=3, LAST=2, SEEDS=range(1), BATCH=100)
    names["main"]()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["accuracy", "range", "mixed", "changes"]
    assert [row[:14].strip() for row in rows] == list(names["METHODS"])
    assert rows[0].split()[-2:] == ["0%", "0.00"]
    assert rows[1].split()[-2:] == ["100%", "0.00"]
