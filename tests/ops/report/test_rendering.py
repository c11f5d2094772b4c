"""Formats of reports, whatever the command."""

import json
from pathlib import Path

import pytest

from ops.report import Code, Report, Row, Section, Tone, html, markdown, write
from ops.report.rendering import GITHUB_LIMIT

NASTY = "<script>alert(1)</script> | [bold]x[/] `y`\nz"


def report(rows: int = 1, attachment: str = "") -> Report:
    row = Row((NASTY, Code(NASTY), NASTY * 3), Tone.BAD, output="```\n</details><b>")
    return Report(
        title=NASTY,
        headline=NASTY,
        tone=Tone.BAD,
        data={"value": NASTY},
        sections=(Section("Many", ("One", "Two", "Three"), (row,) * rows, lead=2, note=NASTY), Section("None", (), ())),
        notes=(NASTY,),
        attachment=("cdk diff", attachment),
    )


def test_markdown_escapes_everything() -> None:
    said = markdown(report(attachment="``` <b>"))
    outside = "".join(said.split("```")[::2]).replace(f"`{NASTY.split(' |', maxsplit=1)[0]}", "")
    assert "<script>" not in outside
    assert said.count("```") == 4
    rows = [line for line in said.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}


def test_html_is_one_page_that_escapes_everything() -> None:
    said = html(report(attachment="<b>"))
    assert "<script" not in said and "&lt;script&gt;" in said
    assert "<b>" not in said
    assert "://" not in said and "src=" not in said
    assert said.startswith("<!doctype html>") and said.rstrip().endswith("</html>")


@pytest.mark.parametrize(("rows", "attachment"), [(1000, ""), (1000, "x" * 200_000), (1, "x" * 200_000)])
def test_markdown_fits_into_a_comment(rows: int, attachment: str) -> None:
    said = markdown(report(rows, attachment))
    assert len(said) <= GITHUB_LIMIT
    assert rows == 1 or "more |" in said
    assert said.count("<details>") == said.count("</details>") - said.count("</details><b>")


def test_text_is_not_cut_where_no_terminal_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    long = "i-" + "0123456789" * 20
    folded = Section("Folded", ("One", "Two"), (Row((long, long)),), folded=True)
    write(Report("title", "headline", Tone.GOOD, {}, sections=(folded,)))
    assert capsys.readouterr().out.count(long) == 2


def test_text_in_a_file_is_plain_and_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    long = "i-" + "0123456789" * 20
    write(Report(long, "headline", Tone.BAD, {}), "text", tmp_path / "report.txt")
    said = (tmp_path / "report.txt").read_text()
    assert long in said and "\x1b" not in said


def test_a_report_that_cannot_be_made_leaves_the_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("earlier")
    with pytest.raises(TypeError):
        write(Report("title", "headline", Tone.GOOD, {"value": object()}), "json", tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == "earlier"


def test_json_is_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    write(report(), "json")
    assert json.loads(capsys.readouterr().out) == {"headline": NASTY, "value": NASTY}
