import json

import pytest

from calmix import InputError
from calmix.paper.own_claims import load_claims
from tests.fabricate import fabricate
from tests.scenarios import run_command

FILE = '''
from calmix.paper.judging import Claim
from calmix.study import quantities as q

@Claim("mine", ("deep",))
def mixup_is_under_confident(judge):
    """Mixup makes a deep ensemble under-confident"""
    yield judge.level(q.GAP, "mixup", "above")

CLAIMS = [mixup_is_under_confident]
'''


def test_claims_of_a_file_are_judged(tmp_path):
    for seed in (0, 1):
        fabricate(tmp_path / "runs", "deep", "mixup", accuracy=0.9, confidence=0.6 + 0.01 * seed, seed=seed)
    (tmp_path / "mine.py").write_text(FILE)
    words = ("claims", "--runs", tmp_path / "runs", "--claims")
    code, out, err = run_command(*words, tmp_path / "mine.py", "--json")
    assert code == 0, err
    (claim,) = json.loads(out)["claims"]
    assert (claim["id"], claim["text"]) == ("mine", "Mixup makes a deep ensemble under-confident")
    assert [part["verdict"] for part in claim["parts"]] == ["shown"]
    code, out, _ = run_command(*words, f"{tmp_path / 'mine.py'}:mixup_is_under_confident")
    assert code == 0
    assert "1 shown" in out


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("CLAIMS = 3", "", "must be a Claim or a list of them, got int"),
        ("CLAIMS = []", "", "must be a Claim or a list of them"),
        (FILE, ":OTHER", "has no OTHER"),
        ("import nothing_of_this_name", "", "ModuleNotFoundError"),
        (FILE + "CLAIMS = CLAIMS * 2", "", "two claims with the id 'mine'"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, text, name, message):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=message):
        load_claims(f"{tmp_path / 'mine.py'}{name}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.py: no such file"):
        load_claims(str(tmp_path / "nothing.py"))


def test_an_unknown_side_is_refused(tmp_path):
    fabricate(tmp_path / "runs", "deep", "mixup", accuracy=0.9, confidence=0.6)
    (tmp_path / "mine.py").write_text(FILE.replace('"above"', '"not below"'))
    code, _, err = run_command("claims", "--runs", tmp_path / "runs", "--claims", tmp_path / "mine.py")
    assert code == 2
    assert "unknown side 'not below'; did you mean 'below'? valid: above, below" in " ".join(err.split())
