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


def test_size_requires_a_complete_image(page: Path) -> None:
    assert image.size(page) == (1275, 1650)
    content = page.read_bytes()
    for damaged in (content[:-1], content + b"x", b"", b"P6" + content[2:], b"P5\n90 90\n255\n"):
        page.write_bytes(damaged)
        assert image.size(page) is None


def test_an_image_without_ink_is_blank(page: Path, tmp_path: Path) -> None:
    assert not image.is_blank(page)
    white = tmp_path / "white.pgm"
    Image.new("L", (100, 100), 250).save(white)
    assert image.is_blank(white)


@pytest.mark.parametrize("angle", [-12.0, -7.0, -4.0, -2.0, 3.0, 5.5])
def test_skew_is_measured(tmp_path: Path, angle: float) -> None:
    path = tmp_path / "skewed.pgm"
    page_image(skew=angle).save(path)
    assert image.skew(path) == pytest.approx(-angle, abs=0.4)


def test_pages_without_skew_are_not_rotated(tmp_path: Path, page: Path) -> None:
    assert image.skew(page) == 0
    page_image(turned=90).save(tmp_path / "turned.pgm")
    assert image.skew(tmp_path / "turned.pgm") == 0
    Image.new("L", (500, 700), 255).save(tmp_path / "white.pgm")
    assert image.skew(tmp_path / "white.pgm") == 0


def test_ink_is_the_share_of_black(tmp_path: Path) -> None:
    half = Image.new("L", (100, 100), 255)
    half.paste(0, (0, 0, 50, 100))
    half.save(tmp_path / "half.pgm")
    assert image.ink(tmp_path / "half.pgm") == pytest.approx(0.5)


def test_rotating_back_restores_the_image(page: Path, tmp_path: Path) -> None:
    for degrees in (90, 180, 270):
        page_image(turned=degrees).save(tmp_path / "turned.pgm")
        image.rotate(tmp_path / "turned.pgm", 360 - degrees, tmp_path / "back.pgm")
        assert (tmp_path / "back.pgm").read_bytes() == page.read_bytes()


def test_the_saved_png_is_small_and_keeps_size_and_contrast(page: Path, tmp_path: Path) -> None:
    image.save_png(page, tmp_path / "saved.png")
    with Image.open(tmp_path / "saved.png") as saved, Image.open(page) as original:
        assert saved.size == original.size
        darkest, lightest = saved.convert("L").getextrema()
        assert (darkest, lightest) == (0, 255)
    assert (tmp_path / "saved.png").stat().st_size < 50_000
