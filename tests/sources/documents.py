"""Small real PDFs, with a text layer and metadata."""

from __future__ import annotations

from datetime import UTC, datetime

from fpdf import FPDF


def text_pdf(*lines: str, title: str = "", created: datetime | None = None) -> bytes:
    """A PDF of one page. Without lines the page is empty, like a scan before OCR."""
    pdf = FPDF(format="letter")
    pdf.set_creation_date(created or datetime(2001, 2, 3, tzinfo=UTC))
    if title:
        pdf.set_title(title)
    pdf.add_page()
    pdf.set_font("Helvetica", size=11)
    for line in lines:
        pdf.cell(0, 6, line, new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())


REAL_NAMES = {
    "MenloPark_CivicPlus_01-12-2021.pdf": ("City Council", "REGULAR MEETING AGENDA", "Date: 1/12/2021"),
    "MorganHill_IQM2_01-20-2021.pdf": (
        "Regular Meeting Agenda",
        "City Council",
        "Wednesday, January 20, 2021",
    ),
    "SanJose_Legistar_02-09-2021.pdf": ("City Council Meeting", "Amended Agenda", "Tuesday, February 9, 2021"),
    "Sunnyvale_Legistar_01-26-2021.pdf": ("Notice and Agenda", "City Council", "Tuesday, January 26, 2021"),
    "MorganHill_IQM2_2.pdf": ("CITY COUNCIL STAFF REPORT", "MEETING DATE: May 6, 2020"),
    "MountainView_Legistar.pdf": ("DATE: January 26, 2021", "CATEGORY: New Business", "TITLE: Hotel Acquisition"),
    "SanJose11.pdf": ("COUNCIL AGENDA: 8/24/2021", "ITEM: 2.11", "DATE: August 24, 2021"),
    "SanJose4.pdf": ("TO: Honorable Mayor and City Council", "FROM: City Auditor", "DATE: August 4, 2021"),
    "SanJose6.pdf": ("8/11/2021", "RESOLUTION NO. 12", "AUGUST 14, 2021", "Council Agenda: 8/31/2021"),
    "SanJose8.pdf": ("COUNCIL AGENDA: 6/29/21", "Memorandum", "DATE: June 14, 2021"),
    "Sunnyvale_Legistar2.pdf": ("DATE: October 13, 2020", "CATEGORY: New Business"),
    "cuya_community_college_agenda.pdf": ("Regular Meeting of the Board of Trustees", "Thursday, September 26, 2019"),
    "june101998.pdf": ("The City Record", "June the Tenth, Nineteen Hundred and Ninety-Eight"),
    "acta sesion.pdf": ("ACTA DE LA SESION ORDINARIA DEL PLENO", "celebrada el dia 27 de marzo de 2025"),
    "example_pdf.pdf": ("Word1", "Word2"),
    "2018-Ord-_89-2018-Tree-Cutting-Amendment.pdf": (),
    "2018-Res-_259-Planning-Development-Fees.pdf": ("RESOLUTION NO. 259-2018", "A RESOLUTION MODIFYING THE POLICY"),
    "1998-Ord-_62-98-Flood.pdf": ("ORDINANCE NO. 62.98", "Approved by the Planning Commission on July 6, 1998"),
    "Irvine_Granicus.pdf": (
        "Memo",
        "Date: August 21, 2020",
        "for the meeting of the Council on",
        "September 8, 2020",
    ),
    "overlay.pdf": ("Text", "Payed 2017-Jan-22"),
    "ccitt.pdf": (),
}
"""Names of files that towns published, with lines like those of their first pages. Four names have a numeric date, and
one a month's name."""
