"""An OCR engine of a plugin, in the real reader process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clerk import config
from clerk.config import Settings
from clerk.documents.manifest import OCR, page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import InvalidPluginResult, PluginMissing
from clerk.ocr.engines import find_engine
from clerk.ocr.ocr_engine import EngineReference
from clerk.ocr.process_document import Options
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "clerk_example" / "clerk_example.py"


def settings(folder: Path, engine: str) -> Settings:
    return config.load({"CLERK_PLUGINS_DIR": str(folder), "CLERK_OCR_ENGINE": engine})


@pytest.mark.parametrize("kind", ["file", "package"])
def test_the_engine_of_a_plugin_recognizes_pages(
    storage: SiteStorage, document: Document, process_pdf: ProcessPdf, tmp_path: Path, kind: str
) -> None:
    plugins = tmp_path / f"plugins-{kind}"
    plugins.mkdir()
    if kind == "file":
        shutil.copy(EXAMPLE, plugins / "example_engine.py")
    else:
        (plugins / "engine_package").mkdir()
        shutil.copy(EXAMPLE, plugins / "engine_package" / "engine.py")
        (plugins / "engine_package" / "__init__.py").write_text("from .engine import ocr_engines\n")
    engine = find_engine(settings(plugins, "example"))
    assert engine.__name__ == "CommandEngine"
    (page,) = process_pdf(pdfs.scanned([pdfs.page_image()]), Options(engine=EngineReference.of(engine))).pages
    assert (page.method, page.confidence) == (OCR, 80.0)
    assert "repair of the school roof" in page_texts(storage, document)[0][1]
    assert not storage.word_boxes(document, 1).exists()


def test_a_plugin_can_replace_a_built_in_engine(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from clerk import OcrEngine, hookimpl\n"
        "class Mine(OcrEngine):\n    pass\n"
        "@hookimpl\ndef ocr_engines():\n    return {'tesserocr': Mine}\n"
    )
    assert find_engine(settings(tmp_path, "tesserocr")).__name__ == "Mine"
    with pytest.raises(PluginMissing, match="the engines are pytesseract, tesserocr"):
        find_engine(settings(tmp_path, "mine"))


@pytest.mark.parametrize("returned", ["['tesserocr']", "{'mine': object}", "{'mine': 'module'}"])
def test_a_wrong_result_is_an_error_that_names_the_plugin(tmp_path: Path, returned: str) -> None:
    (tmp_path / "mine.py").write_text(
        f"from clerk import hookimpl\n@hookimpl\ndef ocr_engines():\n    return {returned}\n"
    )
    with pytest.raises(InvalidPluginResult, match="plugin mine returned"):
        find_engine(settings(tmp_path, "tesserocr"))
