"""The kinds of documents with the folder of each, and where the details of a document can come from.

Minutes and agendas have the paths that they always had. The other kinds follow the form of agendas.
"""

from __future__ import annotations

from collections.abc import Mapping

KIND_FOLDERS: Mapping[str, str] = {
    "minutes": "",
    "agenda": "_agendas",
    "packet": "_packets",
    "ordinance": "_ordinances",
    "resolution": "_resolutions",
    "report": "_reports",
    "notice": "_notices",
}
"""Kind → folder; the folder of minutes is the site's own."""
KINDS = tuple(KIND_FOLDERS)
ORIGINS: Mapping[str, str] = {
    "source": "the listing of the source",
    "folder": "the name of its folder",
    "name": "the name of the file",
    "text": "the text of the first page",
    "metadata": "the title of the PDF",
    "created": "the creation of the PDF",
    "modified": "the modification of the file",
    "default": "the default of the site",
    "operator": "an operator",
}
"""Where date, meeting or kind of a document comes from, in words."""
