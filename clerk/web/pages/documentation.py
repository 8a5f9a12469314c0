"""The pages of docs/, at the paths that they have in the repository. Messages and alerts refer to these."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from clerk.monitoring.alert import RUNBOOK
from clerk.web import documentation
from clerk.web.rendering import render


def show(request: Request) -> Response:
    name = f"{request.path_params['page']}.md"
    if name not in documentation.names():
        raise HTTPException(404)
    return render("documentation.html", page=documentation.render_page(name))


def show_runbook(request: Request) -> Response:
    """A short address. Browsers keep its fragment."""
    return RedirectResponse(f"/{RUNBOOK}")
