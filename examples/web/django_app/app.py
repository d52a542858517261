"""A Django app that reports on behalf of its users: ``python app.py runserver``, or its WSGI `application`.

Unlike in a real app, settings, URLs and views are in this one file. DATABASE_URL is the app's PostgreSQL
database, and REPORTS_URL an arcwise server.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponseNotAllowed, JsonResponse
from django.urls import path
from reporting import client_of, ledgers

from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"),
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1", "localhost", "testserver"],
)


def user_of(request: HttpRequest) -> str:
    """Return the user of a request. A real app has signed the user in: ``str(request.user.pk)``."""
    return str(request.headers["X-User"])


def consent(request: HttpRequest) -> HttpResponseBase:
    """Make the account of a user who agrees, and stop reporting when the user withdraws.

    The budget of a user who comes back stays spent: a deleted account would come back with a whole one.
    """
    user = user_of(request)
    if request.method == "PUT":
        made = ledgers().create_account(user)
        client_of(user).opt_in()
        return JsonResponse({"made": made})
    if request.method == "DELETE":
        try:
            client_of(user).opt_out()
        except LedgerError:  # there is no account, or the database does not answer
            return JsonResponse({"error": "not stopped: try again"}, status=503)
        return JsonResponse({"stopped": True})
    return HttpResponseNotAllowed(["PUT", "DELETE"])


def rides(request: HttpRequest) -> HttpResponseBase:
    """Report the heading of a ride; the ride itself would be stored here."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    client = client_of(user_of(request))
    try:  # from the body, because a query would be in access logs
        outcome = client.report("heading", float(json.loads(request.body)["heading"]))
    except (KeyError, TypeError, ValueError):
        return JsonResponse({"error": "heading must be a number"}, status=422)
    return JsonResponse({"outcome": outcome.value})


urlpatterns = [path("consent", consent), path("rides", rides)]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
