from tests.fabricate import fabricate
from tests.scenarios import run_command


def test_a_page_and_its_figures_without_a_run_that_cannot_be_read(tmp_path):
    fabricate(tmp_path / "runs", "deep", "mixup", history=3)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "recipe.json").write_text("{")
    words = ("report", tmp_path / "runs", "--out", tmp_path / "page.html", "--figures", tmp_path / "figures")
    code, out, err = run_command(*words)
    assert code == 0
    assert "broken/recipe.json cannot be read as JSON" in err
    figures = list((tmp_path / "figures").iterdir())
    assert {path.suffix for path in figures} == {".svg", ".pdf", ".png"}
    assert out == f"written: {tmp_path / 'page.html'} and {len(figures)} files in {tmp_path / 'figures'}\n"
    page = (tmp_path / "page.html").read_text()
    assert "Mixup" in page
    assert "<svg" in page
