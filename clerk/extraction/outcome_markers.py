"""Markers of outcomes: "motion carried", "approved 4-1", "all in favor", and the numbers of a tally.

The wording of a motion is not its outcome: "that the ordinance be adopted" and "be read and passed" give no marker.
All patterns need linear time: repetitions are bounded and not nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clerk.extraction.marker import KINDS, TALLY, Marker, Page, Result

_RESULTS = {
    "passed": "passed", "carried": "passed", "approved": "passed", "adopted": "passed", "carries": "passed",
    "passes": "passed", "prevailed": "passed", "prevails": "passed", "granted": "passed", "accepted": "passed",
    "ratified": "passed", "enacted": "passed", "moved": "passed", "pass": "passed", "carry": "passed",
    "succeeded": "passed",
    "failed": "failed", "fails": "failed", "defeated": "failed", "lost": "failed", "denied": "failed",
    "rejected": "failed",
    "dies": "failed", "failing": "failed", "carrying": "passed", "having passed": "passed",
    "having failed": "failed", "fail": "failed", "tabled": "tabled", "postponed": "tabled", "deferred": "tabled",
    "continued": "tabled",
}  # fmt: skip
_TENTATIVE = frozenset({"denied", "rejected"})
_NEEDS_AUXILIARY = frozenset({"approved", "adopted", "granted", "accepted", "ratified", "enacted", "denied",
"rejected", "postponed",
                              "deferred", "continued", "tabled"})  # fmt: skip
_ADVERBS = (
    r"(?:(?:duly|then|unanimously|hereby|also|subsequently|thereby|therefore|so|thus|declared|thereupon)\b,? ?){0,2}"
)
_SUBJECT_VERBS = (
    r"passed|carried|approved|adopted|carries|passes|prevailed|prevails|failed|fails|defeated|denied|rejected|lost|tabled|postponed"
    r"|did not (?:pass|carry)|does not (?:pass|carry)|dies|failing|carrying|having passed|having failed"
)
_SUBJECT = re.compile(
    r"\b(motions?|amendment|question|substitute|measure|resolution|ordinance|bill|by-?law|vote|item|proposal|nomination"
    r"|minutes|agenda|calendar|warrants?|contract|request|application|report)\b"
    rf"([^.;:\n]{{0,160}}?)[ \n]((?:was|were|is|are|has|had|been|being|be) )?{_ADVERBS}({_SUBJECT_VERBS})\b",
    re.IGNORECASE,
)
_STRONG_SUBJECTS = frozenset(
    {"motion", "motions", "amendment", "question", "substitute", "measure", "bill", "bylaw", "by-law", "vote"}
)
_LABELLED = re.compile(
    r"(?:^|\n|[.;] )(?:final )?(?:result|disposition|action(?: taken)?|outcome|resolution|status|decision"
    r"|vote(?: result)?|motion(?: result)?)"
    r"s? ?[:-]{1,2} ?\n?(?:the )?(?:motion |resolution |item )?(?:was |is )?(?:unanimously )?"
    r"(passed|carried|approved|adopted|failed|defeated|denied|rejected|tabled|postponed|lost)\b(?! (?:to|by) (?!a "
    r"|the |vote|unan|roll|voice))",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?:(?<=\n)|(?<=[.;:,)\]] )|(?<=^))[(\[*]{0,2}(?:Unanimously |UNANIMOUSLY )?"
    r"(Carried|CARRIED|Passed|PASSED|Approved|APPROVED|Adopted|ADOPTED|Failed|FAILED|Defeated|DEFEATED|Lost|LOST|Denied|DENIED"
    r"|Rejected|REJECTED|Tabled|TABLED|Carries|Passes|Fails|carried|passed|failed)\b"
    r"(?=[.,;!)\]\n*]|$| ?[(\[]?\d| by\b| on a\b| with\b| unanimous| UNANIMOUS| \(| \[)",
)
_QUALIFIED = re.compile(
    r"\b(passed|carried|approved|adopted|failed|defeated|denied|rejected|tabled|lost|granted|accepted|ratified|moved|fails|passes"
    r"|carries)"
    r"(?: [a-z]{2,12}){0,1}?"
    r" (?:unanimously|UNANIMOUSLY|by (?:an? |the )?(?:unanimous|following|voice|roll|vote|majority|\d|acclamation"
    r"|general consent|all)"
    r"|on (?:an? |the )?(?:unanimous|following|voice|roll|vote|\d)|with (?:all|a vote|a \d|a unanimous|\d|unanimous"
    r"|the following)"
    r"|[(\[]?\d{1,2} ?(?:-|to|TO) ?\d)",
    re.IGNORECASE,
)
_UNANIMOUS_VERB = re.compile(
    r"\b(?:unanimously|unanimous vote to) (passed|carried|approved?|adopted?|agreed|accepted|ratified|granted|denied"
    r"|rejected)\b"
    r"|\bby unanimous (?:vote|consent|voice vote|roll call vote)\b|\bvote was unanimous\b|\bunanimous (?:voice "
    r"|roll call )?vote\b",
    re.IGNORECASE,
)
_BODY_VOTED = re.compile(
    r"\b(?:council|board|commission|committee|trustees|members|court|selectmen|authority|directors|aldermen)"
    r"(?: present)?,? (?:then )?(?:unanimously )?voted (?:unanimously |\d{1,2} ?(?:-|to) ?\d{1,2},? )?(?:in favou?r"
    r"|to|for|approval)\b",
    re.IGNORECASE,
)
_AFTER_SECOND = re.compile(
    r"(?:,|;| and|, and|, it was)(?: was| it was| then| the motion was)? ?(?:duly )?(?:unanimously |duly )?"
    r"(carried|passed|approved|adopted|voted|defeated|failed)\b",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"\b(?:so ordered|hearing no objections?|there being no objections?|without objection)\b", re.IGNORECASE
)
_NOT_AN_OUTCOME = re.compile(
    r"(?:\b(?:be|to|not|if|when|until|unless|shall|may|must|should|would|will|can|could|had|as|once|after|before|whether|previously"
    r"|recently|already|having been|been|being|or|were to|to be|the|an?|any|all|that were|that was|which were"
    r"|of)[ \n]|-)$",
    re.IGNORECASE,
)
_HISTORY_AFTER = re.compile(
    r" (?:in|on|at|during|last|this past)(?: [a-z]{2,10}){0,2}? (?:(?:19|20)\d\d|january|february|march|april|may \d"
    r"|june|july|august|september|october|november|december|last|previous|year|month|prior)\b",
    re.IGNORECASE,
)
_HISTORY_BEFORE = re.compile(
    r"\b(?:last|previous(?:ly)?|prior|earlier|had|in (?:19|20)\d\d|ago|recently|historically)\b", re.IGNORECASE
)
_ELECTION = re.compile(r" (?:by |with )?\d{1,3},\d{3}")
_REPORTED = re.compile(
    r"\b(?:said(?! (?:motion|resolution|ordinance))|stated|noted|asked|explained|commented|mentioned|recalled|added"
    r"|felt|believed|wondered|questioned|advised|indicated|told"
    r"|hoped|suggested|recommends?|recommended|reported|says?)\b",
    re.IGNORECASE,
)
_ENDS_STATEMENT = re.compile(
    r"[.,;:)\]\n]|$| (?:by|on a|on the|with|unanim|as (?:amended|presented|written|submitted|corrected|read|is)|\d|\("
    r"|\[|on (?:first|second|third))"
)
_UNANIMOUS = re.compile(
    r"\bunanimous(?:ly)?\b|\ball (?:(?:were |those |members |voting )?in favou?r|ayes?|yes|yeas|approved|concurred"
    r"|said aye"
    r"|(?:[a-z]{3,15} ){0,3}?(?:voted|voting|vote|answered|answering)"
    r"(?: members)?(?: present)? ['\"]?(?:aye|yes|yea|in favou?r|in the affirmative|for))"
    r"|\bayes ?[:-]? ?all\b|\b(?:none|no one) opposed\b|\bno (?:opposition|nays|dissent|dissenting votes?)\b"
    r"|\bwithout (?:dissent|opposition)\b|\bby acclamation\b",
    re.IGNORECASE,
)
_NOT_UNANIMOUS = re.compile(
    r"\b(?:not|nearly|almost|non|recommended|recommendation|recommends|asked(?: for)?|call(?:ed)? for|say)\W{1,3}$",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"[ ,;]{1,3}(?:except|but|with the exception|other than|with [A-Z][^.\n]{2,60}(?:opposed|voting no|dissenting"
    r"|abstaining))"
)
_CALL = re.compile(
    r"\b(?:roll[- ]call(?: vote)?(?: (?:was|is) (?:taken|as follows|called))?|recorded vote|voice vote"
    r"|upon (?:a )?(?:roll call|vote)"
    r"|question (?:was|being) (?:called|put|on)|the vote was(?: as follows)?|vote on ?\n?\n?the motion"
    r"|called for (?:a|the) vote"
    r"|motion to [^.;:\n]{3,160} received a)\b",
    re.IGNORECASE,
)

NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        (
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
            "thirteen", "fourteen", "fifteen",
        )
    )
}  # fmt: skip
_NUMBER = r"(\d{1,3}|" + "|".join(NUMBER_WORDS) + r")(?: ?\(\d{1,2}\))?"
_FILLER = (
    r"(?:[ (\[:;,\n-]|\b(?:by|on|with|an?|the|votes?|roll|call|voice|of|was|were|is|as|tally|count|final|following"
    r"|majority|unanimous(?:ly)?"
    r"|margin|show|hands|recorded|result(?:ed)?|in|motion|carried|passed|approved|failed|follows|to|favor|board|council|members|voted"
    r"|standing|division|split|taken|roll-call)\b){1,24}"
)
_NUMBERS = re.compile(
    r"\b(?:carried|passed|approved|adopted|failed|fails|carries|passes|defeated|denied|rejected|vote[ds]?|motion|unanimous(?:ly)?"
    r"|yeas?|tally|tabled|moved|granted|accepted|result|margin|count|votación|ayes?)\b"
    rf"({_FILLER}){_NUMBER} ?(?:-to-|-|to|:) ?{_NUMBER}(?: ?(?:-to-|-|to) ?(\d{{1,2}}))?(?: ?- ?(\d{{1,2}}))?"
    r"(?![\d/%-]|[.:,]\d| ?[ap]\.?m\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|requires?|required|would|needs?|could|must)(?: [a-z]{1,10}){0,2} $", re.IGNORECASE
)
_CLOCK = re.compile(r"\d ?: ?\d\d")
_BRACKETED = re.compile(
    r"(?<=[\n. ])[(\[](\d{1,2}) ?(?:-|to) ?(\d{1,2})(?: ?- ?(\d{1,2}))?(?: ?- ?(\d{1,2}))?[)\]](?=[.\n;]|$)",
    re.IGNORECASE,
)
_RECOMMENDED = re.compile(r"\brecommend", re.IGNORECASE)
_LETTERS = re.compile(
    r"[(\[]?\bY ?[-:] ?(\d{1,2})\b(?:[;, ]{1,3}N ?[-:] ?(\d{1,2})\b)?"
    r"(?:[;, ]{1,3}A(?:bs(?:tain)?)? ?[-:] ?(\d{1,2})\b)?"
)
_LABEL_NUMBER = re.compile(
    r"\b(?:(ayes?|yeas?|yes|in favou?r|for|affirmative)|(nays?|noes|no|nos|opposed|against|negative)"
    r"|(abstain(?:ed|ing|s)?|abstentions?)|(absent|excused|not voting))"
    r"(?: votes?)? ?([:=-]?) ?\(?(\d{1,4})\)?(?![\d/:%-]|[.,]\d| (?:percent|feet|acres|years|days))",
    re.IGNORECASE,
)
_NUMBER_LABEL = re.compile(
    r"\b(\d{1,2}|" + "|".join(NUMBER_WORDS) + r"|no)(?: ?\(\d{1,2}\))? (?:votes? )?"
    r"(?:(ayes?|yeas?|in favou?r|for|yes|affirmative)|(nays?|noes|opposed|against|no votes?|nay votes?|dissenting"
    r"|negative)"
    r"|(abstain(?:ed|ing)?|abstentions?)|(absent|excused))\b",
    re.IGNORECASE,
)
_WEAK_COUNTS = frozenset(
    {
        "no",
        "for",
        "yes",
        "against",
        "absent",
        "excused",
        "nos",
        "not voting",
        "in favor",
        "opposed",
        "affirmative",
        "negative",
    }
)
_REFERENCE_BEFORE_NUMBER = re.compile(
    r"\b(?:ordinance|resolution|bill|item|section|case|file|no|number|res|ord|chapter|page|agenda|lot|phase|pm|am|at"
    r"|ward|district|zone|on|from|contract|policy|proposal|article|act|grades?|ages?|permit|plan|fy|year|through|between|time)\W*$",
    re.IGNORECASE,
)


def find_outcomes(page: Page) -> Iterator[Marker]:
    text = page.text
    for match in _SUBJECT.finditer(text):
        if (result := _result_of_subject(match, text)) is not None:
            start = match.start() if not match[2].strip() else match.start(4)
            yield Marker(start, match.end(), "result", result)
    for match in _LABELLED.finditer(text):
        yield Marker(match.start(1) - 1, match.end(), "result", Result(_value(match[1]), creates=False, is_label=True))
    for match in _BARE.finditer(text):
        yield Marker(
            match.start(),
            match.end(),
            "result",
            Result(_value(match[1]), creates=False, is_tentative=match[1].lower() in _TENTATIVE),
        )
    for match in _QUALIFIED.finditer(text):
        before = text[max(0, match.start() - 30) : match.start()]
        if not _NOT_AN_OUTCOME.search(before) and not _HISTORY_AFTER.match(text, match.end(), match.end() + 40):
            is_tentative = match[1].lower() in _TENTATIVE
            creates = not is_tentative and not _HISTORY_BEFORE.search(text, max(0, match.start() - 80), match.start())
            yield Marker(
                match.start(),
                match.end(1),
                "result",
                Result(_value(match[1]), creates=creates, is_tentative=is_tentative),
            )
    for match in _UNANIMOUS_VERB.finditer(text):
        before = text[max(0, match.start() - 30) : match.start()]
        if not _NOT_AN_OUTCOME.search(before) or match[1] is None:
            creates = not _HISTORY_BEFORE.search(text, max(0, match.start() - 80), match.start())
            yield Marker(match.start(), match.end(), "result", Result("passed", creates=creates))
    for match in _BODY_VOTED.finditer(text):
        yield Marker(
            match.start(),
            match.end(),
            "result",
            Result("passed", creates=bool(re.search(r"\d|unanim", match[0], re.IGNORECASE))),
        )
    for match in _AFTER_SECOND.finditer(text):
        yield Marker(match.start(), match.end(), "result", Result(_value(match[1]), creates=False, adjacent=True))
    for match in _CONSENT.finditer(text):
        yield Marker(match.start(), match.end(), "result", Result("passed", creates=False))
    for match in _UNANIMOUS.finditer(text):
        if not _NOT_UNANIMOUS.search(text, max(0, match.start() - 24), match.start()):
            is_whole = _EXCEPT.match(text, match.end(), match.end() + 90) is None
            yield Marker(match.start(), match.end(), "unanimous", is_whole)
    for match in _CALL.finditer(text):
        words = match[0].lower()
        is_separate = words.startswith(("motion", "question", "vote on", "called"))
        # The roll is also called at the beginning of a meeting.
        is_attendance = words in ("roll call", "roll-call")
        yield Marker(match.start(), match.end(), "call", None if is_attendance else is_separate)


def _value(word: str) -> str:
    word = word.lower()
    return "failed" if " not " in word else "passed" if word == "voted" else _RESULTS[word]


def _result_of_subject(match: re.Match[str], text: str) -> Result | None:
    subject, middle, auxiliary, verb = match[1].lower(), match[2], (match[3] or "").strip().lower(), match[4].lower()
    before = text[max(match.start(), match.start(4) - 24) : match.start(4)]
    if auxiliary in ("be", "being", "been", "had") or (
        not auxiliary and _NOT_AN_OUTCOME.search(before) and "not" not in verb
    ):
        return None
    if not auxiliary and before.lower().rstrip().endswith(" and") and "second" not in middle.lower():
        return None  # "be read a third time and passed"
    if verb in _NEEDS_AUXILIARY and not auxiliary and middle.strip():
        return None  # "the motion that the Council approved"
    if (
        re.search(r"\b(?:if|whether|would|should|until|unless|when|after|previously|that)\b", middle, re.IGNORECASE)
        and verb != "failed"
    ):
        if not re.search(r"\b(?:that|to)\b", middle) or re.search(
            r"\b(?:if|whether|would|should|until|unless|when)\b", middle, re.IGNORECASE
        ):
            return None
        if verb in _NEEDS_AUXILIARY:
            return None  # "a resolution that was adopted"
    if _HISTORY_AFTER.match(text, match.end(), match.end() + 40) or _ELECTION.match(text, match.end()):
        return None
    if re.search(
        r"\b(?:if|when|once|after|before|until|unless|any|whether|every) (?:an? |the )?$",
        text[max(0, match.start() - 24) : match.start()],
        re.IGNORECASE,
    ):
        return None
    sentence = text[max(0, match.start() - 200) : match.start()]
    sentence = sentence[max(sentence.rfind(". "), sentence.rfind("\n"), sentence.rfind("; ")) + 1 :]
    if _REPORTED.search(sentence) or _REPORTED.search(middle):
        return None
    if subject not in _STRONG_SUBJECTS and not _ENDS_STATEMENT.match(text, match.end()):
        return None  # "the ordinance was adopted too fast in other towns"
    if '"' in text[match.end() : match.end() + 2]:
        return None  # a quotation
    is_strong = subject in _STRONG_SUBJECTS
    if not is_strong and verb in ("carried", "lost") and subject not in ("resolution", "ordinance", "item"):
        return None
    creates = is_strong and not _HISTORY_BEFORE.search(text, max(0, match.start() - 60), match.start())
    is_tentative = verb in _TENTATIVE and not is_strong
    return Result(_value(verb), creates=creates, is_tentative=is_tentative)


def find_numbers(page: Page) -> Iterator[Marker]:
    text = page.text
    for match in _NUMBERS.finditer(text):
        separated = text[match.start(2) : match.end()]
        if (
            _REFERENCE_BEFORE_NUMBER.search(match[1])
            or _CLOCK.search(separated)
            or (":" in separated and match.end() - match.start(2) > 3)
        ):
            continue
        if match[2][0].isdigit() != match[3][0].isdigit() or _CONDITION.search(
            text, max(0, match.start() - 24), match.start()
        ):
            continue
        values = {"ayes": _number(match[2]), "nays": _number(match[3])}
        values |= {key: int(value) for key, value in (("abstain", match[4]), ("absent", match[5])) if value}
        if max(values.values()) < 150:
            yield Marker(match.start(2), match.end(), "numbers", values)
    for match in _BRACKETED.finditer(text):
        if _RECOMMENDED.search(text, max(0, match.start() - 40), match.start()):
            continue  # "Planning Commission recommends approval (7-0)"
        values = {key: int(value) for key, value in zip(TALLY.values(), match.groups(), strict=True) if value}
        yield Marker(match.start(), match.end(), "numbers", values)
    for match in _LETTERS.finditer(text):
        values = {
            key: int(value) for key, value in zip(("ayes", "nays", "abstain"), match.groups(), strict=True) if value
        }
        yield Marker(match.start(), match.start(), "call", True)
        yield Marker(match.start(), match.end(), "numbers", values)
    yield from _find_counts(text)


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else NUMBER_WORDS.get(word.lower(), 0)


def _find_counts(text: str) -> Iterator[Marker]:
    last_label = -100
    for match in _LABEL_NUMBER.finditer(text):
        kind = next(kind for kind, group in zip(KINDS, match.groups(), strict=True) if group)
        label = next(group for group in match.groups() if group).lower()
        is_separated = match[5] in (":", "=", "-")
        has_other = is_separated and (match.start() - last_label < 60 or _other_count(text, match.end()))
        follows = match.start() - last_label <= 40 and label not in ("no", "for")
        if label in _WEAK_COUNTS and not has_other and not follows:
            continue
        last_label = match.end()
        yield Marker(match.start(), match.end(), "numbers", {TALLY[kind]: int(match[6])})
    for match in _NUMBER_LABEL.finditer(text):
        kind = next(kind for kind, group in zip(KINDS, match.groups()[1:], strict=True) if group)
        if match[1].lower() == "no" and kind == "aye":
            continue
        if match[match.lastindex or 1].lower() == "for" and not re.match(
            r"[,;. ]{1,3}(?:and )?(?:\d|no|one|two)", text[match.end() : match.end() + 12], re.IGNORECASE
        ):
            continue
        yield Marker(match.start(), match.end(), "numbers", {TALLY[kind]: _number(match[1])})


_OTHER_COUNT = re.compile(
    r"[\W]{0,8}\b(?:no|nos|nays?|against|opposed|abstain\w{0,6}|abstentions?|absent) ?[:=-] ?\d", re.IGNORECASE
)


def _other_count(text: str, at: int) -> bool:
    return _OTHER_COUNT.match(text, at, at + 60) is not None
