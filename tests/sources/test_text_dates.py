"""The date of a meeting in the text of a first page: found where the page states it, and never guessed."""

from __future__ import annotations

from datetime import date

import pytest

from clerk.sources.text_dates import find_date_in_title, find_meeting_date

TODAY = date(2026, 1, 1)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("City Council\nRegular Meeting of January 12, 2021", "2021-01-12"),
        ("City Council\n   REGULAR MEETING AGENDA\n   Date:   1/12/2021\n   Time:   5:00 p.m.", "2021-01-12"),
        ("City of Springfield\nNotice and Agenda\nCity Council\nTuesday, January 26, 2021\n7:00 PM", "2021-01-26"),
        (
            "8\nCITY COUNCIL STAFF REPORT\nMEETING DATE: May 6, 2020\nThe March 13, 2020 emergency",
            "2020-05-06",
        ),
        ("COUNCIL AGENDA: 6/29/21\nFILE: 21-1527\nFROM: A. Clerk\nDATE: June 14, 2021", "2021-06-29"),
        ("RESOLUTION NO. __\n8/11/2021\nACTIVITIES ON AUGUST 14, 2021\nCouncil Agenda: 8/31/2021", "2021-08-31"),
        ("TO: Mayor and Council\nFROM: Auditor\nSUBJECT: Review      DATE: August 4, 2021", "2021-08-04"),
        (
            "Meeting of the Board\nThursday, September 26, 2019\nAPPROVAL OF THE MINUTES\nJune 25, 2019",
            "2019-09-26",
        ),
        ("City Council Meeting\nAmended Agenda\nTuesday, February 9, 2021\n1:30 PM", "2021-02-09"),
        ("MINUTES OF THE COUNCIL\nOF THE CITY OF X HELD ON\nTUESDAY, DECEMBER 10, 2018 AT 7:00 P.M.", "2018-12-10"),
        ("            09/28/2021\nSchool District\nBoard of Education Minutes\nSeptember 14, 2021", "2021-09-14"),
        ("Planning Board Agenda\nPosted January 3, 2024\nJanuary 9, 2024 7:00 PM", "2024-01-09"),
        ("Minutes\nTuesday, March 5, 2024\nApproved:\nMarch 19, 2024", "2024-03-05"),
        ("Board of Selectmen Meeting Minutes 2/3/2020", "2020-02-03"),
        ("5 March 2024\nParish Council Meeting", "2024-03-05"),
        ("SESIÓN ORDINARIA DEL DÍA 12 DE ENERO DE 2021", "2021-01-12"),
        ("ACTA DE LA SESIÓN CELEBRADA POR EL PLENO\nEL DÍA 27 DE MARZO DE 2025", "2025-03-27"),
        ("Reunión de la Junta\nmartes 4 de febrero de 2020, 18:00 horas", "2020-02-04"),
        ("Orden del día\nFecha: 23/04/2025\nConcejo Municipal", "2025-04-23"),
    ],
)
def test_a_date_that_the_page_gives_as_its_own(text: str, day: str) -> None:
    assert str(find_meeting_date(text, today=TODAY).date) == day


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no text"),
        ("Word1\nWord2", "has no date"),
        ("ORDINANCE NO. 12\nadopted 1998, amended January 5, 1999", "gives no date of a meeting"),
        ("Code of Ordinances\nadopted March 3, 1998", "gives no date of a meeting"),
        ("AGENDA\nApproval of the minutes of the meeting of June 25, 2019", "gives no date of a meeting"),
        ("City Council\nThe next meeting is on March 5, 2024", "gives no date of a meeting"),
        ("Payed 2017-Jan-22", "has no date"),
        ("Town Council Minutes\nJanuary 12-13, 2021", "has no date"),
        ("Minutes of March 5, 2094", "has no date"),
        ("Meeting of February 30, 2021", "has no date"),
        ("EMERGENCY NOTICE\nOn March 19, 2020, the Governor ordered a statewide order", "gives no date of a meeting"),
        ("Council Meeting\nMonday, May 6, 2019\nBoard Meeting\nTuesday, May 7, 2019", "gives several dates"),
        (
            "Memo\nDate:  August 21, 2020\nIt is for the meeting of the council on\nSeptember 8, 2020",
            "gives several",
        ),
        ("COUNCIL AGENDA:\nFILE: 21-1527\nFROM: A. Clerk", "has a label for the date of the meeting, but"),
        ("Orden del día\nFecha: 03/04/2025\nConcejo Municipal", "gives a date in which day and month may be exchanged"),
    ],
)
def test_a_page_without_a_certain_date(text: str, problem: str) -> None:
    found = find_meeting_date(text, today=TODAY)
    assert found.date is None
    assert found.problem.startswith(problem)


def test_day_first() -> None:
    assert find_meeting_date("Fecha: 03/04/2025\nConcejo", day_first=True).date == date(2025, 4, 3)
    assert find_meeting_date("Meeting date: 03/04/2025").date == date(2025, 3, 4)


@pytest.mark.parametrize(
    ("title", "day"),
    [
        ("City Council - Regular Meeting - Jan 20, 2021 7:00 PM", date(2021, 1, 20)),
        ("Acta del 12 de enero de 2021", date(2021, 1, 12)),
        ("Microsoft Word - example_doc.doc", None),
        ("Approved January 5, 2021", None),
        ("Minutes of May 6, 2019 and May 7, 2019", None),
    ],
)
def test_the_title_of_a_pdf(title: str, day: date | None) -> None:
    assert find_date_in_title(title) == day
