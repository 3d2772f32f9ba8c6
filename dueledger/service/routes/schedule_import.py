"""Conversion of files of other schedulers into definitions, as the console and command do it."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from dueledger.importers.import_result import QUESTIONS, ImportResult, OpenQuestion
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.uploaded import SourceScheduler, guess_scheduler, import_text
from dueledger.ledger.definitions.fields import NAME_CHARS_MAX
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.schedule import load_zone
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import CurrentCall
from dueledger.service.documents import answer
from dueledger.service.routes.fields import LINES, PRINTABLE, TenantPath
from dueledger.service.scoped_routes import ScopedRoutes

operate = ScopedRoutes(Scope.OPERATE, "definitions")

TEXT_CHARS_MAX: Final = 1_000_000
JOBS_MAX: Final = 50
"""Jobs of one file; `dueledger import` takes more."""


class ConvertRequest(RequestBody):
    """A file of another scheduler, and what its jobs lack."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "text": "0 9 * * 1-5 /usr/local/bin/close-books\n",
                    "scheduler": "crontab",
                    "timezone": "Europe/Berlin",
                }
            ]
        }
    )

    text: Annotated[str, Field(max_length=TEXT_CHARS_MAX, pattern=LINES)]
    file_name: Annotated[str, Field(max_length=200, pattern=PRINTABLE)] = "text"
    scheduler: Annotated[
        SourceScheduler | None, Field(description="without it, it is guessed from name and text")
    ] = None
    kind: Annotated[
        str,
        Field(max_length=100, pattern=PRINTABLE, description="empty: one for each type of job"),
    ] = ""
    timezone: Annotated[
        str,
        Field(
            max_length=100, pattern=PRINTABLE, description="of times whose zone it does not name"
        ),
    ] = "UTC"


class ConvertedJob(BaseModel):
    """A job as a definition; `decide` has the open questions about it."""

    where: str
    definition: str
    frequency: str
    decide: list[OpenQuestion]
    notes: list[str]
    document: Annotated[dict[str, Any], Field(description="what putDefinition takes")]


class LeftOutJob(BaseModel):
    """A job that is not converted, why, and what to write instead."""

    where: str
    text: str
    reason: str
    accepted: str | None


class OtherLine(BaseModel):
    """A line that is no job, and what it means for jobs."""

    where: str
    text: str
    meaning: str


class AskedQuestion(BaseModel):
    """A question that the file does not answer, and about how many jobs."""

    question: OpenQuestion
    sentence: str
    jobs: int


class ConvertedFile(BaseModel):
    """All that a file has, each part in one of the lists."""

    jobs: list[ConvertedJob]
    left_out: list[LeftOutJob]
    other_lines: list[OtherLine]
    questions: list[AskedQuestion]


@operate.add(
    "POST",
    "/v1/tenants/{tenant}/definitions/convert",
    "convertSchedules",
    ConvertedFile,
    is_audited=False,
)
async def convert_schedules(
    call: CurrentCall, tenant: TenantPath, asked: ConvertRequest
) -> Response:
    """Convert a file of another scheduler into definitions; change nothing."""
    del call
    found = await convert_file(tenant, asked)
    return answer(
        {
            "jobs": [
                {
                    "where": job.where,
                    "definition": job.definition.definition,
                    "frequency": job.inventory()["frequency"],
                    "decide": list(job.known.questions),
                    "notes": list(job.known.notes),
                    "document": job.document,
                }
                for job in found.jobs
            ],
            "left_out": [
                {"where": each.where, "text": each.text, "reason": each.reason}
                | {"accepted": each.accepted}
                for each in found.skipped
            ],
            "other_lines": [
                {"where": each.where, "text": each.text, "meaning": each.meaning}
                for each in found.reported
            ],
            "questions": [
                {"question": each, "sentence": QUESTIONS[each], "jobs": jobs}
                for each, jobs in found.questions()
            ],
        }
    )


async def convert_file(tenant: str, asked: ConvertRequest) -> ImportResult:
    """Return the jobs of a file as definitions of a tenant. Raises InvalidInput."""
    load_zone(asked.timezone)  # raises with the nearest names
    text = asked.text.replace("\r\n", "\n")
    scheduler = asked.scheduler or guess_scheduler(text, asked.file_name)
    anew = NewDefinitionFields(
        tenant,
        kind=asked.kind,
        zone=asked.timezone,
        source=f"{scheduler}:{asked.file_name}"[:NAME_CHARS_MAX],
    )
    found = await asyncio.to_thread(import_text, text, asked.file_name, scheduler, anew)
    if len(found.jobs) > JOBS_MAX:
        message = (
            f"The file has {len(found.jobs):,} jobs; up to {JOBS_MAX} are imported here. "
            "Use `dueledger import` and `dueledger define`."
        )
        raise InvalidInput(message)
    return found
