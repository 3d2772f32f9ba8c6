"""Files of Quartz and Spring: XML of jobs and triggers, annotations, and settings."""

from pathlib import Path
from typing import Final

from dueledger.importers.import_result import ImportResult
from dueledger.importers.java_cron import JavaDialect
from dueledger.importers.quartz_xml import import_quartz_xml
from dueledger.importers.source_files import import_path, read_documents
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.spring import import_settings, properties_of, settings_of
from dueledger.importers.spring_annotations import import_annotations
from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text

_SOURCE_BYTES_MAX: Final = 1_048_576
_CODE: Final = (".java", ".kt")
_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_SUFFIXES: Final = (".xml", ".properties", *_CODE, *_DOCUMENTS)


def import_quartz(
    path: Path, anew: NewDefinitionFields, dialect: JavaDialect = JavaDialect.SPRING
) -> ImportResult:
    """Read a file, or every file of these types below a folder.

    `dialect` is that of settings and lists; XML is Quartz', annotations are Spring's.
    """

    def import_file(file: Path, where: str, found: ImportResult) -> None:
        suffix = file.suffix.lower()
        if suffix in _DOCUMENTS:
            for place, document in read_documents(file):
                settings = settings_of(document, f"{where}{place}")
                import_settings(settings, anew, dialect, found)
        elif suffix in _CODE:
            import_annotations(read_text(file, _SOURCE_BYTES_MAX), where, anew, found)
        elif suffix == ".xml":
            import_quartz_xml(read_text(file, DEFINITION_BYTES_MAX), file, where, anew, found)
        else:
            settings = properties_of(read_text(file, _SOURCE_BYTES_MAX), where)
            import_settings(settings, anew, dialect, found)

    return import_path(path, _SUFFIXES, import_file)
