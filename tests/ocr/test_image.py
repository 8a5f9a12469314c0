from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from clerk.ocr import image
from tests.ocr.pdfs import page_image


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.pgm"
    page_image().save(path)
    return path


def test_size_is_that_of_a_complete_image_only(page: Path) -> None:
    assert image.size(page) == (1275, 1650)
    content = page.read_bytes()
    for damaged in (content[:-1], content + b"x", b"", b"P6" + content[2:], b"P5\n90 90\n255\n"):
        page.write_bytes(damaged)
        assert image.size(page) is None


def test_blank_is_what_has_no_ink(page: Path, tmp_path: Path) -> None:
    assert not image.is_blank(page)
    white = tmp_path / "white.pgm"
    Image.new("L", (100, 100), 250).save(white)
    assert image.is_blank(white)


@pytest.mark.parametrize("angle", [-7.0, -2.0, 0.0, 3.0])
def test_skew_is_found(tmp_path: Path, angle: float) -> None:
    path = tmp_path / "skewed.pgm"
    page_image(skew=angle).save(path)
    assert image.skew(path) == pytest.approx(-angle, abs=0.4)


def test_turning_back(page: Path, tmp_path: Path) -> None:
    for degrees in (90, 180, 270):
        page_image(turned=degrees).save(tmp_path / "turned.pgm")
        image.rotate(tmp_path / "turned.pgm", 360 - degrees, tmp_path / "back.pgm")
        assert (tmp_path / "back.pgm").read_bytes() == page.read_bytes()


def test_what_is_kept_is_small_and_looks_the_same(page: Path, tmp_path: Path) -> None:
    image.save_png(page, tmp_path / "kept.png")
    with Image.open(tmp_path / "kept.png") as kept, Image.open(page) as original:
        assert kept.size == original.size
        darkest, lightest = kept.convert("L").getextrema()
        assert (darkest, lightest) == (0, 255)
    assert (tmp_path / "kept.png").stat().st_size < 50_000
