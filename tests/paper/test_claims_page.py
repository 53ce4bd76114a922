import pytest

from calmix.cli import main
from tests.paper.fabricate import fabricate


def test_the_report_page_has_the_claims(tmp_path):
    for augment, accuracy in (("none", 0.8), ("mixup", 0.9)):
        fabricate(tmp_path / "runs", "deep", augment, accuracy=accuracy)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")])
    assert ended.value.code == 0
    text = (tmp_path / "page.html").read_text()
    assert "<td>1. Mixup raises accuracy</td><td>holds</td>" in text
    assert "accuracy of DE Mixup - none: +10.00 [" in text
    assert "<td>18. On ImageNet CAMixup BE has the best ECE of the three</td><td>not run</td>" in text
