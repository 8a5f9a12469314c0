"""The kinds of documents, and the folder of each below a site's folder.

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
