"""Tasks of saved searches (`clerk alert`): match a publication, deliver matches. Queue `delivery`.

They belong to no run: a failure never delays or fails the run of a site.
"""

from __future__ import annotations

import logging

import procrastinate
from procrastinate import App

from clerk.pipeline.engine import DELIVERY_QUEUE
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import DeliveryRetry
from clerk.saved_searches import deliveries, feeds, mail, webhook
from clerk.saved_searches.deliveries import Delivery, Match
from clerk.saved_searches.jobs import DELIVER_TASK, MATCH_TASK
from clerk.saved_searches.matching import match_publication
from clerk.saved_searches.notification import Notification

logger = logging.getLogger(__name__)


def match(context: procrastinate.JobContext, publication_id: int) -> str:
    """Match the new pages of a publication with the saved searches, and write the site's feed."""
    job = JobContext(context)
    matched = match_publication(job.settings, job.connection, publication_id, job.heartbeat)
    if matched is None:
        return "the site was removed"
    subdomain, status = matched
    with job.connection() as connection:
        feeds.write_site_feed(connection, job.settings, subdomain)
    return status


def deliver(context: procrastinate.JobContext, delivery_id: int) -> str:
    """Send one delivery. If the worker is lost after sending, the repetition has the same idempotency key."""
    job = JobContext(context)
    with job.connection() as connection:
        delivery = deliveries.read(connection, delivery_id)
        if delivery is None:
            return "the alert was removed"
        if delivery.status == "delivered":
            return "delivered before"
        matches = deliveries.read_matches(connection, delivery)
    # Another worker may have the job now, and may have sent it.
    job.heartbeat()
    _send(job, delivery, matches)
    with job.connection() as connection:
        deliveries.record_delivered(connection, delivery_id, context.job.attempts + 1)
    logger.info("delivered %s pages of alert %s: %s", len(matches), delivery.name, delivery.destination.label)
    return "delivered"


def _send(job: JobContext, delivery: Delivery, matches: list[Match]) -> None:
    if delivery.channel == "feed":
        with job.connection() as connection:
            feeds.write_saved_search_feed(connection, job.settings, delivery.name)
        return
    notification = Notification(
        str(delivery.idempotency_key),
        delivery.name,
        delivery.query,
        matches,
        delivery.created_at,
        job.settings.public_url,
    )
    if delivery.channel == "mail":
        mail.send(job.settings, notification, delivery.address)
    else:
        webhook.send(job.settings, notification, delivery.destination)


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = DeliveryRetry(app.job_manager)
    app.task(name=MATCH_TASK, queue=DELIVERY_QUEUE, retry=retry, pass_context=True)(match)
    app.task(name=DELIVER_TASK, queue=DELIVERY_QUEUE, retry=retry, pass_context=True)(deliver)
