"""Names of the languages of OCR: a misspelt one is found when a site is added, not in the first run."""

from __future__ import annotations

from clerk.errors import ToolMissing
from clerk.ocr import tesseract
from clerk.suggestions import did_you_mean

_NAMES = (
    "afr amh ara asm aze aze_cyrl bel ben bod bos bre bul cat ceb ces chi_sim chi_sim_vert chi_tra "
    "chi_tra_vert chr cos cym dan deu div dzo ell eng enm epo est eus fao fas fil fin fra frk frm fry gla "
    "gle glg grc guj hat heb hin hrv hun hye iku ind isl ita ita_old jav jpn jpn_vert kan kat kat_old kaz "
    "khm kir kmr kor kor_vert lao lat lav lit ltz mal mar mkd mlt mon mri msa mya nep nld nor oci ori osd "
    "pan pol por pus que ron rus san sin slk slv snd spa spa_old sqi srp srp_latn sun swa swe syr tam tat "
    "tel tgk tha tir ton tur uig ukr urd uzb uzb_cyrl vie yid yor "
)
_MODELS = frozenset(_NAMES.split())
"""The models of tesseract."""
_TWO_LETTERS = {"en": "eng", "es": "spa", "fr": "fra", "de": "deu", "it": "ita", "pt": "por", "zh": "chi_sim"}


def check_languages(languages: object) -> None:
    """Raise ValueError(problem, remedy) unless tesseract has a model of each name, on this machine or elsewhere."""
    if not isinstance(languages, str) or not tesseract.LANGUAGES.fullmatch(languages):
        raise ValueError(f"languages {str(languages)[:60]!r} is invalid", "write them as eng+spa")
    try:
        known = _MODELS | tesseract.installed_languages()
    except ToolMissing:
        known = _MODELS
    for language in languages.split("+"):
        if language not in known:
            near = _TWO_LETTERS.get(language.lower())
            remedy = f"did you mean {near}?" if near else did_you_mean(language, known)
            raise ValueError(
                f"no language {language}", remedy or "use the names of tesseract's models, such as eng+spa"
            )
